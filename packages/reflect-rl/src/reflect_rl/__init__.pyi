# The public names as type checkers and editors read them; a test compares them with those of `__init__.py`.
from reflect_rl.agent import Agent as Agent
from reflect_rl.api import (
    add_reflections as add_reflections,
    check_env as check_env,
    collect as collect,
    evaluate as evaluate,
    load_agent as load_agent,
    load_model as load_model,
    make_env as make_env,
    read_episodes as read_episodes,
    report as report,
    train_rl as train_rl,
    train_sft as train_sft,
    warm_up as warm_up,
    write_episodes as write_episodes,
)
from reflect_rl.config import (
    AlgorithmConfig as AlgorithmConfig,
    EnvironmentConfig as EnvironmentConfig,
    Frozen as Frozen,
)
from reflect_rl.envs.base import (
    ComparesTraining as ComparesTraining,
    EnvSpec as EnvSpec,
    HasFiles as HasFiles,
    HasMeasures as HasMeasures,
    HasRules as HasRules,
    HasSolver as HasSolver,
    HasStateTeacher as HasStateTeacher,
    HasStrata as HasStrata,
    HasTeacher as HasTeacher,
    HasUnseenNames as HasUnseenNames,
    HearsReflections as HearsReflections,
    Idles as Idles,
    NamesGames as NamesGames,
    NumbersActions as NumbersActions,
    Renders as Renders,
    Restartable as Restartable,
    TellsHindsight as TellsHindsight,
    TextEnv as TextEnv,
    VariesTexts as VariesTexts,
)
from reflect_rl.errors import (
    ReflectRLError as ReflectRLError,
    UserError as UserError,
)
from reflect_rl.evaluation.compare import Evaluation as Evaluation
from reflect_rl.evaluation.methods import Method as Method
from reflect_rl.rollout import (
    Policy as Policy,
    Reflector as Reflector,
)
from reflect_rl.types import (
    Decision as Decision,
    Episode as Episode,
    Observation as Observation,
    Oracle as Oracle,
    Step as Step,
    Task as Task,
    Turn as Turn,
    View as View,
)

__version__: str
