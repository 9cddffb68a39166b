"""model.fit in Keras, from a tf.data.Dataset and from a PyDataset.

python keras_fit.py [PHOTOS]         (class folders; default: a drawn set)
"""

from __future__ import annotations

import sys

import keras
import toy

import penstock as ps
import penstock.tf
from penstock.keras import Batches


def main() -> None:
    keras.utils.set_random_seed(1)
    photos = sys.argv[1] if len(sys.argv) > 1 else toy.photos()
    train = ps.image_dataset_from_directory(
        photos, image_size=(32, 32), batch_size=20, validation_split=0.2, subset="training", seed=1
    )
    check = ps.image_dataset_from_directory(
        photos, image_size=(32, 32), batch_size=20, validation_split=0.2, subset="validation", seed=1
    )
    model = keras.Sequential(
        [
            keras.layers.Rescaling(1 / 127.5, offset=-1),
            keras.layers.Conv2D(12, 3, strides=2, activation="relu"),
            keras.layers.Conv2D(24, 3, strides=2, activation="relu"),
            keras.layers.GlobalMaxPooling2D(),
            keras.layers.Dense(len(train.class_names or ())),
        ]
    )
    model.compile(
        optimizer=keras.optimizers.Adam(3e-3),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    model.fit(penstock.tf.dataset(train), epochs=4, verbose=2)
    history = model.fit(Batches(train), validation_data=penstock.tf.dataset(check), epochs=4, verbose=2)
    assert history.history["accuracy"][-1] > 0.8, "it did not learn"


if __name__ == "__main__":
    main()
