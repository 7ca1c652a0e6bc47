"""Keys of alfworld's configuration files: those of its `configs/base_config.yaml` and `configs/eval_config.yaml`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

TURNS: Final = frozenset({"max_nb_steps_per_episode"})

SEARCH: Final = frozenset({"action_space", "beam_width", "generate_top_k", "max_target_length", "replay", "training"})
"""Keys that both ways of training have."""

MEMORY: Final = frozenset(
    {
        *("replay_batch_size", "replay_memory_capacity", "replay_sample_history_length", "replay_sample_update_from"),
        "update_per_k_game_steps",
    }
)

SECTIONS: Final[Mapping[str, frozenset[str]]] = {
    "": frozenset(
        {*("controller", "dagger", "dataset", "env", "general", "logic", "mask_rcnn", "rl", "vision_dagger")}
    ),
    "controller": frozenset({"debug", "load_receps", "type"}),
    "dagger": SEARCH | {"fraction_assist", "fraction_random", "unstick_by_beam_search"},
    "dagger.fraction_assist": frozenset(f"fraction_assist_anneal_{end}" for end in ("episodes", "from", "to")),
    "dagger.fraction_random": frozenset(f"fraction_random_anneal_{end}" for end in ("episodes", "from", "to")),
    "dagger.replay": MEMORY,
    "dagger.training": TURNS,
    "dataset": frozenset({"data_path", "eval_id_data_path", "eval_ood_data_path", "num_eval_games", "num_train_games"}),
    "env": frozenset(
        {
            *("domain_randomization", "expert_timeout_steps", "expert_type", "goal_desc_human_anns_prob", "hybrid"),
            *("regen_game_files", "task_types", "thor", "type"),
        }
    ),
    "env.hybrid": frozenset({"eval_mode", "start_eps", "thor_prob"}),
    "env.thor": frozenset({"save_frames_path", "save_frames_to_disk", "screen_height", "screen_width", "smooth_nav"}),
    "general": frozenset(
        {
            *("checkpoint", "evaluate", "hide_init_receptacles", "model", "observation_pool_capacity", "random_seed"),
            *("save_path", "task", "training", "training_method", "use_cuda", "visdom"),
        }
    ),
    "general.checkpoint": frozenset({"experiment_tag", "load_from_tag", "load_pretrained", "report_frequency"}),
    "general.evaluate": frozenset(
        {
            *("batch_size", "controllers", "env", "envs", "eval_experiment_tag", "eval_paths", "repeats", "run_eval"),
        }
    ),
    "general.evaluate.env": frozenset({"type"}),
    "general.model": frozenset(
        {
            *("block_dropout", "block_hidden_dim", "decoder_layers", "dropout", "encoder_conv_num", "encoder_layers"),
            *("n_heads", "recurrent"),
        }
    ),
    "general.training": frozenset({"batch_size", "max_episode", "optimizer", "smoothing_eps"}),
    "general.training.optimizer": frozenset({"clip_grad_norm", "learning_rate"}),
    "logic": frozenset({"domain", "grammar"}),
    "mask_rcnn": frozenset({"pretrained_model_path"}),
    "rl": SEARCH | {"epsilon_greedy"},
    "rl.epsilon_greedy": frozenset(
        {"epsilon_anneal_episodes", "epsilon_anneal_from", "epsilon_anneal_to", "noisy_net"}
    ),
    "rl.replay": MEMORY
    | {
        *("accumulate_reward_from_final", "count_reward_lambda", "discount_gamma_count_reward"),
        *("discount_gamma_game_reward", "discount_gamma_novel_object_reward", "multi_step"),
        *("novel_object_reward_lambda", "replay_memory_priority_fraction"),
    },
    "rl.training": TURNS | {"learn_start_from_this_episode", "target_net_update_frequency"},
    "vision_dagger": frozenset(
        {
            *("maskrcnn_top_k_boxes", "model_type", "resnet_fc_dim", "sequence_aggregation_method"),
            "use_exploration_frame_feats",
        }
    ),
}
"""Keys of each section, by the section's path; "" is the file."""


def unknown_keys(config: Mapping[str, Any], section: str = "") -> Iterator[tuple[str, list[str]]]:
    """Paths of the keys that alfworld does not know, each with those known beside it.

    >>> [path for path, _ in unknown_keys({"rl": {"training": {"max_steps": 9}}, "logic": None})]
    ['rl.training.max_steps']
    """
    prefix = f"{section}." if section else ""
    for key, value in config.items():
        path = f"{prefix}{key}"
        if key not in SECTIONS[section]:
            yield path, [f"{prefix}{known}" for known in SECTIONS[section]]
        elif path in SECTIONS and isinstance(value, Mapping):
            yield from unknown_keys(value, path)
