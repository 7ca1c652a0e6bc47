"""Names that files define: read off lines of many languages, and weighed against a question."""

from __future__ import annotations

import pytest

from reflect_locate.repositories.definitions import (
    asked_stem,
    best_name,
    defined_name,
    definition,
    heading,
    names_asked_for,
)


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("def pour(cup):", "pour"),
        ("    async def pour_tea(cup):", "pour_tea"),
        ("class TeaPot(Pot):", "TeaPot"),
        ("func (p *Pot) Boil(c Cup) error {", "Boil"),
        ("func Boil() {", "Boil"),
        ("pub(crate) async fn boil(cup: &Cup) -> Tea {", "boil"),
        ("impl TeaPot for Kettle {", "TeaPot"),
        ("public static final class TeaPot {", "TeaPot"),
        ("export default function pourTea(cup) {", "pourTea"),
        ("export const pourTea = async (cup) => {", "pourTea"),
        ("app.pourTea = function pour(cup) {", "pourTea"),
        ("module.exports.pour = function (cup) {", "pour"),
        ("interface Pot {", "Pot"),
        ("pour_tea() {", "pour_tea"),
        ("  def self.pour_tea(cup)", "pour_tea"),
        ("fun pourTea(cup: Cup): Tea {", "pourTea"),
        ("    override suspend fun pourTea(cup: Cup): Tea {", "pourTea"),
        ("fun <T> List<T>.pourTea(cup: T) {", "pourTea"),
        ("fun String?.pourTea() = Tea()", "pourTea"),
        ("enum class TeaKind { GREEN }", "TeaKind"),
        ("typealias Teas = List<Tea>", "Teas"),
        ("public sealed partial class TeaPot<T> : IPot", "TeaPot"),
        ("public readonly record struct TeaCup(int Size);", "TeaCup"),
        ('pub unsafe extern "C" fn pour_tea(cup: i32) -> i32 {', "pour_tea"),
        ("export declare function pourTea(cup: Cup): void;", "pourTea"),
        # No definitions: a call, a comment, a sentence, an assignment.
        ("pour(cup)", ""),
        ("# def pour(cup):", ""),
        ("The class of tea is fixed.", ""),
        ("pour = cup", ""),
        ("", ""),
    ],
)
def test_the_name_that_a_line_defines(line, name):
    assert defined_name(line) == name


@pytest.mark.parametrize(
    "line", ["a." * 100_000, " " * 100_000, "pub " * 50_000, "func (" + "(" * 100_000, "x" * 100_000]
)
def test_hostile_lines_define_nothing(line):
    assert defined_name(line) == ""


def test_a_name_is_worth_the_words_that_it_shares_with_the_question():
    rarity = {"pour": 3.0, "tea": 1.0}
    asked = ("pour", "tea")
    assert best_name(["pour_tea"], asked, rarity) == 1
    assert best_name(["pour"], asked, rarity) == 3 / 4
    # Half of its words were not asked for.
    assert best_name(["pour_milk"], asked, rarity) == 3 / 8
    # The best one counts, and not their sum.
    assert best_name(["pour", "tea", ""], asked, rarity) == 3 / 4
    assert best_name([""], asked, rarity) == 0
    # Words that stand nowhere in the tree.
    assert best_name(["pour"], asked, {}) == 0


@pytest.mark.parametrize(
    ("lines", "title"),
    [
        (["# Tea", "pour"], "Tea"),
        (["### Tea pots ###"], "Tea pots"),
        (["== Tea pots", "pour"], "Tea pots"),
        (["Tea pots", "========"], "Tea pots"),
        (["`pot`", "~~~~~"], "`pot`"),
        # A sentence, a line of a list, a border of a table, a comment without a space, an indented line.
        (["Pour tea.", "Then milk."], ""),
        (["- tea", "-----"], ""),
        (["====", "===="], ""),
        (["#tea", "pour"], ""),
        (["    # tea", "pour"], ""),
        (["Tea pots"], ""),
    ],
)
def test_a_heading_is_marked_or_underlined(lines, title):
    assert heading(lines, 0) == title


def test_the_words_of_a_files_own_name():
    assert asked_stem("src/tea_pot.py", ("tea", "pot", "lid")) == 1
    assert asked_stem("tea/cup.py", ("tea",)) == 0
    assert asked_stem("tea/.py", ("tea",)) == 0


@pytest.mark.parametrize(
    ("line", "worth"),
    [
        ("def pour_tea(cup):", 1.0),
        ("class pour_tea:", 1.0),
        ("pour_tea = 3", 0.7),
        ("pour_tea: int = 3", 0.7),
        ("    pour_tea: int = 3", 0.7),
        ("export const pour_tea = 3;", 0.7),
        ("#define pour_tea 3", 0.7),
        ("MOST, pour_tea = 1, 2", 0.7),
        ("pour_tea := 3", 0.7),
        # Uses of it, other names, and a variable inside of something.
        ("pour_tea(cup)", 0.0),
        ("if pour_tea == 3:", 0.0),
        ("pour_tea == 3", 0.0),
        ("MOST, pour_tea == 3", 0.0),
        ("    most, pour_tea = 1, 2", 0.0),
        ("        pour_tea = 3", 0.0),
        ("pour_tea_twice = 3", 0.0),
        ("def pour_tea_twice():", 0.0),
        ("x" * 2000 + "\npour_tea", 0.0),
    ],
)
def test_the_worth_of_a_definition(line, worth):
    assert definition(["", line], "pour_tea") == ((1, worth) if worth else (-1, 0.0))


@pytest.mark.parametrize(
    ("lines", "worth"),
    [
        # C, C++, C#, Java and TypeScript
        (["int pour_tea(struct cup *cup, int (*fill)(void)) {"], 1.0),
        (["static const char *pour_tea(void)", "{"], 1.0),
        (["std::vector<int> Pot::pour_tea(int cups) const {"], 1.0),
        (["    public Tea pour_tea(Cup cup)", "    {"], 1.0),
        (["  private <T> List<T> pour_tea(Map<String, T> cups) throws IOException {"], 1.0),
        (["  async pour_tea(cup: Cup): Promise<Tea> {"], 1.0),
        (["\t#pour_tea(): number {"], 1.0),
        (["int pour_tea(int cup) {}"], 1.0),
        (["  int pour_tea(int cup) const { return cup; }"], 1.0),
        (["        public Tea pour_tea(Cup cup) => Tea.Of(cup);"], 1.0),
        (["  @Override public Tea pour_tea() { return tea; }"], 1.0),
        (["        public static T pour_tea<T>(T cup) where T : new()", "        {"], 1.0),
        (["  public <R, S extends Cup> R pour_tea(", "      R cup,", "      S other) {"], 1.0),
        (["    public Pot(int cups)", "    public (int a, int b) pour_tea(int n)", "        : base(n)"], 1.0),
        (["  static <T> List<T> pour_tea() { return null; }"], 1.0),
        (["  protected abstract Tea pour_tea(Cup cup);"], 0.6),
        # Properties and fields
        (["        public int? pour_tea", "        {", "            get { return 3; }"], 1.0),
        (["        public string pour_tea { get; set; }"], 1.0),
        (["        internal bool pour_tea => tea == null;"], 1.0),
        (["        private readonly Dictionary<string, int> pour_tea = new();"], 0.6),
        (["        public event EventHandler<Args>? pour_tea;"], 0.6),
        (["  protected int pour_tea;"], 0.6),
        (["    private static ?int $pour_tea = 0;"], 0.6),
        (["    private pour_tea?: boolean;"], 0.6),
        (["        private Pot Boil(Cup pour_tea)", "        {"], 0.0),
        (["        public pour_tea Boil(Cup cup) {"], 0.0),
        (["  public Pot pot = pour_tea;"], 0.0),
        (["        new pour_tea(cup),", "        const pour_tea(cup),", "private pour_tea (of tea)"], 0.0),
        (["expect pour_tea", "pour_tea(cup) { tea }"], 0.0),
        # Calls, declarations and sentences
        (["int pour_tea(int cup);"], 0.0),
        (["pour_tea(cup, () => {"], 0.0),
        (["if (pour_tea(cup)) {"], 0.0),
        (["} else if pour_tea(cup) {"], 0.0),
        (["return pour_tea(cup)", "{"], 0.0),
        (["await pour_tea(cup) {"], 0.0),
        (["Then call pour_tea(cup).", "{"], 0.0),
        # Constants inside of a block or a class
        (["const (", "\tpour_tea = 3"], 0.6),
        (["class Pot:", "    def boil(self): ...", "", "    pour_tea = 3"], 0.6),
        (["public class Pot {", "    private static final int pour_tea = 3;"], 0.6),
        (["impl Pot {", "    pub const pour_tea: u8 = 3;"], 0.6),
        (["namespace Tea", "{", "    class Pot", "    {", "        const int pour_tea = 3;"], 0.6),
        (["const val pour_tea = 3"], 0.7),
        (["pub(crate) static pour_tea: u8 = 3;"], 0.7),
        (["pub struct Pot {", "    pub pour_tea: u8,"], 0.7),
        (["static const char *pour_tea[] = {"], 0.7),
        (["using pour_tea = std::map<int, int>;"], 0.7),
        (["define('pour_tea', 3);"], 0.7),
        (["    const boil = () => {", "        let pour_tea = 3;"], 0.0),
        (["def boil():", "    pour_tea = 3"], 0.0),
        (["class Pot:", "    def boil(self):", "        pour_tea = 3"], 0.0),
        (["class Pot:", "    pour_tea == 3"], 0.0),
    ],
)
def test_functions_with_braces_and_constants_inside_of_something(lines, worth):
    assert definition(lines, "pour_tea")[1] == worth


def test_a_constant_at_the_margin_comes_before_one_of_a_class():
    assert definition(["class Pot:", "    pour_tea = 1", "pour_tea = 2"], "pour_tea") == (2, 0.7)


def test_a_function_comes_before_a_variable_of_its_name():
    assert definition(["pour_tea = None", "def pour_tea(): ..."], "pour_tea") == (1, 1.0)


@pytest.mark.parametrize(
    ("question", "names"),
    [
        ("pour_tea", ("pour_tea",)),
        ("`TeaPot.pourTea()`", ("TeaPot", "pourTea")),
        ("Session.get", ("Session", "get")),
        ("where is session.get?", ("session", "get")),
        ("pot.py", ()),
        ("docs/tea_pot.md", ()),
        ("MOST_CUPS", ("MOST_CUPS",)),
        ("kettle", ("kettle",)),
        ("kettle()", ("kettle",)),
        ('"kettle"', ("kettle",)),
        ("`Kettle`", ("Kettle",)),
        ("tea.pots.Kettle.pour_tea", ("Kettle", "pour_tea")),
        ("Kettle::pour", ("Kettle", "pour")),
        ("Kettle#pour", ("Kettle", "pour")),
        ("Kettle.#pour", ("Kettle", "pour")),
        ("docs/tea.md#pour", ()),
        ("Kettle<'a, Cup<T>>.pour", ("Kettle", "pour")),
        ("Kettle::<u8>::pour", ("Kettle", "pour")),
        ("Kettle<T>", ("Kettle",)),
        ("class Kettle", ("Kettle",)),
        ("class Kettle(TeaPot):", ("Kettle",)),
        ("def kettle", ("kettle",)),
        ("where is the class Kettle defined?", ("Kettle",)),
        ("class kettles", ()),
        ("class kettles(Tea):", ("kettles",)),
        ("async def boil(self):", ("boil",)),
        ("pub fn boil(&self) {", ("boil",)),
        ("func (k *Kettle) Boil() error {", ("Boil",)),
        ("export default function boil()", ("boil",)),
        ("function names: how are they matched", ()),
        ("type conversion (Path)", ()),
        ("function arguments (defaults)", ()),
        ("type hints", ()),
        ("where is SQLKettle", ("SQLKettle",)),
        ("where are URLs cut", ()),
        ("_kettle", ("_kettle",)),
        ("where is __add__", ("__add__",)),
        ("get", ()),
        ("a_b c_d e_f g_h i_j", ("a_b", "c_d", "e_f", "g_h")),
        ("where is MOST_CUPS used?", ("MOST_CUPS",)),
        ("the kettle of tea", ()),
        ("HTTP and GAE", ()),
        ("Fix MOST_CUPS for guests who bring a kettle", ()),
        ("", ()),
    ],
)
def test_the_names_that_a_question_asks_for(question, names):
    assert names_asked_for(question) == names


@pytest.mark.parametrize(
    "line",
    [
        *("pub " * 50_000 + "a_b", " " * 100_000 + "a_b", "a_b" + " " * 100_000, "a_b." * 50_000),
        *(start + "x " * 140 for start in ("a_b(", "a_b() throws ", "a_b() : ", "a_b<", "a_b() const ")),
        *("A::" * 90 + "a_b(", "a " * 140 + "a_b(", "a_b" + "()" * 140, "a_b(" + "(" * 280, "a* " * 90 + "a_b("),
    ],
)
def test_a_hostile_line_takes_no_time(line):
    assert definition([line] * 20, "a_b")[1] == 0


def test_a_member_of_a_long_function_is_told_from_one_of_a_class():
    # Each line walked back to the beginning of its block once, and that took minutes.
    assert definition(["def f():", *["  max_size = 1"] * 100_000], "max_size") == (-1, 0.0)
    assert definition(["class F:", *["  other = 1"] * 10, "", "  max_size = 1"], "max_size") == (12, 0.6)


def test_a_heading_of_blanks_takes_no_time():
    line = "# kettle" + " " * 200_000 + "x"
    assert heading([line], 0) == line[2:]
