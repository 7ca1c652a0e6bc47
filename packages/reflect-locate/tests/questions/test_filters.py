"""Which candidates become questions, why the others do not, and what the labels say."""

from __future__ import annotations

import pytest

from reflect_locate.questions.candidate import CandidateQuestion
from reflect_locate.questions.filters import REASONS, FilterConfig, folder_leak, is_excluded, leak, questions_of
from reflect_locate.questions.masked_index import MaskedIndex
from reflect_locate.repositories.index import BM25
from reflect_locate.repositories.snapshot import Snapshot
from reflect_locate.repositories.words import words

SENTENCE = "Rotate brass valves against pressure"
OTHERS = {f"pkg/other{number}.py": f"text number {number} about gardens" for number in range(9)}


def ask(files: dict[str, str], *candidates: CandidateQuestion, **thresholds):
    return questions_of(Snapshot("s", files), "project", candidates, FilterConfig(**thresholds), seed=0)


def reasons(result) -> dict[str, int]:
    return {reason: count for row in result.dropped.values() for reason, count in row.items()}


def test_a_plain_question_passes_with_its_labels():
    text = f"{SENTENCE}.\nA pressure vessel with valves.\n"
    result = ask({"pkg/a.py": text, **OTHERS}, CandidateQuestion(SENTENCE, "pkg/a.py", "moddoc", (0, 36), 7))
    (question,) = result.questions
    assert question.key == "s/moddoc/0"
    assert (question.repository, question.snapshot, question.targets) == ("project", "s", ("pkg/a.py",))
    assert (question.leak, question.folder_leak, question.supported, question.time) == ("none", False, True, 7)
    assert question.spans == {"pkg/a.py": ((0, 36),)}
    assert result.found == {"moddoc": 1}
    assert reasons(result) == {}


@pytest.mark.parametrize(
    "text",
    [
        "brass valves pressure",  # 3 words
        "brass valves " + "rotate " * 39,  # 41 words
        "what is this and that brass",  # 1 content word
        "brass valves bräß ößä üäö äöü rotate",  # under 90 % ASCII
        "",
    ],
)
def test_what_is_no_sentence_is_left_out(text):
    result = ask({"a.py": "", "b.py": "x"}, CandidateQuestion(text, "a.py", "moddoc"))
    assert result.questions == []
    assert reasons(result) == {"words": 1}


def test_a_question_about_files_that_differ_is_left_out():
    files = {"a.py": f"{SENTENCE} x", "b.py": f"{SENTENCE} y", **OTHERS}
    # Case, punctuation and white space make no other question.
    result = ask(
        files,
        CandidateQuestion(SENTENCE, "a.py", "moddoc"),
        CandidateQuestion(f" {SENTENCE.upper()}!", "b.py", "symdoc"),
    )
    assert result.questions == []
    assert result.dropped == {"moddoc": {"ambiguous": 1}, "symdoc": {"ambiguous": 1}}


def test_a_question_about_equal_files_has_all_of_them_as_targets():
    files = {"b.py": SENTENCE, "a.py": SENTENCE, **OTHERS}
    candidates = [CandidateQuestion(SENTENCE, path, "moddoc", (0, 36)) for path in ("a.py", "b.py")]
    result = ask(files, *candidates)
    (question,) = result.questions
    assert question.targets == ("a.py", "b.py")
    assert question.spans == {"a.py": ((0, 36),), "b.py": ((0, 36),)}
    assert reasons(result) == {"repeated": 1}


def test_a_question_about_several_files_is_answered_by_each_of_them():
    files = {"b.py": "valves under pressure", "a.py": "gauges", **OTHERS}
    several = CandidateQuestion(SENTENCE, "a.py", "gitN", None, 7, ("b.py",))
    (question,) = ask(files, several).questions
    assert (question.targets, question.spans) == (("a.py", "b.py"), {})
    # The first one has no word of it; the second one is found.
    assert question.supported
    (question,) = ask(files, several, several).questions
    assert question.targets == ("a.py", "b.py")
    # Said of one of them alone, or of a third file, it is ambiguous.
    for path in ("a.py", next(iter(OTHERS))):
        assert ask(files, several, CandidateQuestion(SENTENCE, path, "moddoc")).questions == []


def test_a_question_whose_words_are_everywhere_is_vague():
    common = "Rotate brass valves"
    files = {f"f{number}.py": common if number < 4 else "gardens" for number in range(10)}
    # Each word stands in 4 of 10 files; `pressure` stands in one of them.
    candidate = CandidateQuestion("Rotate all the brass valves", "f0.py", "moddoc")
    assert reasons(ask(files, candidate)) == {"vague": 1}
    assert len(ask(files, candidate, vague_share=0.4).questions) == 1
    files["f0.py"] += " pressure"
    assert len(ask(files, CandidateQuestion(SENTENCE, "f0.py", "moddoc")).questions) == 1


def test_at_most_three_of_each_file_and_source_drawn_by_the_seed():
    things = ["copper", "silver", "golden", "wooden", "marble", "glass"]
    candidates = [CandidateQuestion(f"Rotate {t} valves against pressure", "a.py", "symdoc") for t in things]
    candidates.append(CandidateQuestion("Inspect iron valves against pressure", "a.py", "moddoc"))
    snapshot = Snapshot("s", {"a.py": " ".join(things), **OTHERS})
    kept = [
        [q.text for q in questions_of(snapshot, "p", candidates, FilterConfig(), seed).questions] for seed in range(8)
    ]
    assert all(len(texts) == 4 for texts in kept)
    assert len({tuple(texts) for texts in kept}) > 1
    assert kept[0] == [q.text for q in questions_of(snapshot, "p", candidates, FilterConfig(), 0).questions]


@pytest.mark.parametrize(
    ("path", "excluded"),
    [
        ("tests/a.py", True),
        ("pkg/Test/a.py", True),
        ("pkg/_vendor/lib/a.py", True),
        ("docs/conf.py", True),
        ("setup.py", True),
        ("pkg/test_a.py", True),
        ("pkg/latest/a.py", False),  # `test` is a part of this name, not the name
        ("pkg/asyncio/a.py", False),
        ("pkg/layouts/about.py", False),
        ("pkg/contests.py", False),
        ("pkg/setup.pyi", False),
        ("pkg/examples.py", False),
    ],
)
def test_excluded_places_are_whole_names(path, excluded):
    assert is_excluded(path, FilterConfig()) is excluded
    result = ask({path: "", **OTHERS}, CandidateQuestion(SENTENCE, path, "moddoc"))
    assert reasons(result) == ({"place": 1} if excluded else {})


@pytest.mark.parametrize(
    ("question", "path", "label"),
    [
        ("Parse a JSON document", "json.py", "name"),
        ("Data classes with fields", "pkg/dataclasses.py", "name"),  # written in two words
        ("The ThreadPool of workers", "pool.py", "name"),
        ("Last item of the list", "ast.py", "none"),
        ("Send mail over a socket", "pkg/socket_mail.py", "tokens"),
        ("Sends mails", "socket_mail.py", "none"),
        ("Read the settings", "io.py", "none"),  # too short to be told from chance
        ("Parses documents", "parser.py", "tokens"),  # another form of the word
    ],
)
def test_leaks(question, path, label):
    assert leak(question, path) == label


def test_leaks_of_folders():
    assert folder_leak("Parse an email", "email/mime/text.py")
    assert not folder_leak("Parse some text", "email/mime/text.py")
    assert not folder_leak("Parse an email", "email.py")


def test_a_leak_is_a_label_and_no_reason():
    result = ask({"valves.py": "", **OTHERS}, CandidateQuestion(SENTENCE, "valves.py", "moddoc"))
    assert [q.leak for q in result.questions] == ["name"]


def test_support_is_judged_without_the_sentence():
    noise = {f"n/{number}.py": "brass pressure rotate against" for number in range(25)}
    alone = {"a.py": SENTENCE, **noise, **{f"g/{n}.py": "gardens" for n in range(80)}}
    candidate = CandidateQuestion(SENTENCE, "a.py", "moddoc", (0, len(SENTENCE)))
    assert [q.supported for q in ask(alone, candidate).questions] == [False]
    # The name points to it, or another part of the text does.
    assert [q.supported for q in ask(alone | {"a.py": SENTENCE + " valves"}, candidate).questions] == [True]
    named = {("valves.py" if path == "a.py" else path): text for path, text in alone.items()}
    there = CandidateQuestion(SENTENCE, "valves.py", "moddoc", (0, len(SENTENCE)))
    assert [q.supported for q in ask(named, there).questions] == [True]


def test_all_copies_of_the_sentence_are_masked():
    text = f"{SENTENCE}.\n\n# x\n{SENTENCE.replace(' ', chr(10) + '  ', 1)}.\n"
    result = ask({"a.py": text, **OTHERS}, CandidateQuestion(SENTENCE, "a.py", "moddoc", (0, len(SENTENCE))))
    spans = result.questions[0].spans["a.py"]
    assert [" ".join(text[start:stop].split()) for start, stop in spans] == [SENTENCE, SENTENCE]


@pytest.mark.parametrize(
    ("sign", "copy"),
    [
        ("", SENTENCE.upper()),
        ("", SENTENCE.replace("brass", "`brass`")),
        ("", SENTENCE.replace("brass", "_brass_")),
        ("", SENTENCE.replace(" against", ",\n# against")),
        ("_", SENTENCE),
        ("\\n", SENTENCE),
    ],
)
def test_copies_in_other_capitals_and_signs_are_masked_and_longer_words_are_not(sign, copy):
    # The given place ends with a period, which the copies lack.
    text = f"{SENTENCE}.\n\n{sign}{copy}{sign}\n{SENTENCE}s\n"
    result = ask({"a.py": text, **OTHERS}, CandidateQuestion(SENTENCE, "a.py", "moddoc", (0, len(SENTENCE) + 1)))
    assert [text[start:stop] for start, stop in result.questions[0].spans["a.py"]] == [f"{SENTENCE}.", copy]


def test_the_index_of_contents_scores_like_bm25():
    files = {"a.py": "red car", "b.py": "red red bus street", "c.py": "bike on a street", "d.py": "red street bike"}
    evidence = MaskedIndex(Snapshot("s", files), {"red", *words("street")})
    question = [*words("red"), *words("street")]
    ranked = [path for path, _ in BM25({path: words(text) for path, text in files.items()}).rank(question)]
    # The last two have one of the words each, equally rare, in texts of equal length.
    assert [evidence.content_rank(question, path, [path], []) for path in ranked] == [1, 2, 3, 3]
    assert evidence.share("red") == 0.75
    # Without `red` the first file shares no word with the question.
    assert evidence.content_rank(question, "a.py", ["a.py"], [(0, 3)]) == float("inf")
    assert evidence.name_rank(words("b"), ["b.py"]) == float("inf")


def test_reasons_are_those_that_occur():
    assert set(REASONS) == {"words", "ambiguous", "repeated", "vague", "limit", "place"}
