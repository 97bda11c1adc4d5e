"""VGG16 on the accelerator that PyTorch finds, for `pointsman workload serve --program` (docs/workload.md).

A line with the number of a query in, a line with the image's class and its score out. Weights and images are random, as those of
the application `vgg16`: the time of a request does not depend on their meaning.
"""

import sys

import torch
from torch import nn

# Channels of the convolutions; "M" halves the image (Simonyan and Zisserman, 2015, configuration D).
LAYERS = [64, 64, "M", 128, 128, "M", 256, 256, 256, "M", 512, 512, 512, "M", 512, 512, 512, "M"]


def network():
    layers, channels = [], 3
    for layer in LAYERS:
        if layer == "M":
            layers.append(nn.MaxPool2d(2))
            continue
        layers += [nn.Conv2d(channels, layer, 3, padding=1), nn.ReLU()]
        channels = layer
    dense = [nn.Flatten(), nn.Linear(512 * 7 * 7, 4096), nn.ReLU(), nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, 1000)]
    return nn.Sequential(*layers, *dense)


@torch.inference_mode()
def main():
    device = torch.device(sys.argv[1] if len(sys.argv) > 1 else "cuda")
    # More processes than one share the processors.
    torch.set_num_threads(1)
    torch.manual_seed(1)
    model = network().eval().to(device)
    image = torch.rand(1, 3, 224, 224)

    def classify(query):
        # Another image for each query, which travels to the device and back as that of a client would.
        scores = model((image + query % 1000 / 1e3).to(device))[0]
        score, number = scores.max(0)
        return int(number), float(score)

    for query in range(20):
        classify(query)
    print("ready", flush=True)
    for line in sys.stdin:
        number, score = classify(int(line))
        print(number, score, flush=True)


main()
