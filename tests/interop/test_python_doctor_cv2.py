"""penstock.doctor where a function of OpenCV in Python is the heavy augmentation of small images: in a plain loop, and in a pipeline of ours."""

import time

import cv2
import numpy as np
import tap
from patience import examined

import penstock as ps

cv2.setNumThreads(1)  # as is usual in loaders


def denoise(image):
    return cv2.fastNlMeansDenoisingColored(image, None, 5, 5, 3, 9)


class Loader:
    """Batches of 8 small images."""

    def __len__(self):
        return 400

    def __iter__(self):
        random = np.random.default_rng(5)
        for _ in range(len(self)):
            yield np.stack([denoise(image) for image in random.integers(0, 255, (8, 24, 24, 3), np.uint8)])


def a_step(milliseconds):
    return lambda batch: time.sleep(milliseconds / 1e3)


def check(answer, remedy):
    assert answer.verdict["class"] == "input-bound" and answer.verdict["cause"] == "heavy-augmentation", answer.verdict
    assert answer.verdict["bottleneck"] == "cpu" and answer.remedies[0]["id"] == remedy, (answer.verdict, answer.remedies[0])


@examined
def test_a_loop_that_calls_opencv(patience):
    answer = ps.doctor(Loader(), step=a_step(1), seconds=2 * patience)
    check(answer, "offline-augment")
    assert "denoise" in answer.verdict["stage"] and "cv2" in answer.verdict["stage"], answer.verdict


@examined
def test_a_pipeline_that_calls_opencv(patience):
    images = np.random.default_rng(6).integers(0, 255, (256, 24, 24, 3), np.uint8)
    dataset = ps.from_arrays({"image": images}).map(denoise).batch(8)
    answer = ps.doctor(dataset, step=a_step(1), seconds=2 * patience)
    check(answer, "cache-ram")  # the function gives the same results in every epoch


tap.main(globals())
