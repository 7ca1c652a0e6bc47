"""A model from a local folder, with a low-rank adapter: any causal language model in safetensors.

python examples/own_model.py FOLDER --turns 2000
"""

import argparse

import reflect_rl as rrl

parser = argparse.ArgumentParser()
parser.add_argument("folder", help="a folder with config.json, safetensors and tokenizer; or a name of `model list`")
parser.add_argument("--turns", type=int, default=2000)
parser.add_argument("--rank", type=int, default=16, help="of the adapter; 0 trains all weights")
parser.add_argument("--out", default="runs/example-own-model")
arguments = parser.parse_args()

# Nothing that comes with a model is executed: no pickle, no code of its own.
model = rrl.load_model(arguments.folder, lora_rank=arguments.rank)
demonstrations = rrl.collect("corridor", "oracle", episodes=40)
warm = rrl.train_sft(model, demonstrations, env="corridor", steps=min(arguments.turns, 100), batch_size=8)
agent = rrl.train_rl(warm, "corridor", turns=arguments.turns, learning_rate=2e-4, validate_every=0)
print(rrl.evaluate(warm, "corridor"))
print(rrl.evaluate(agent, "corridor"))
# With an adapter, the folder holds the adapter alone and names its base model.
print(agent.save(arguments.out))
