"""Full fine-tuning of the encoder with sentence-transformers; then every document is encoded anew.

The loss is MultipleNegativesRankingLoss over pairs of a query and its nearest passage of a good document: three
epochs, batches of 32, learning rate 2e-5 with a tenth of warm-up. The best state is kept, the untouched state
included, by nDCG@10 on a fifth of the train queries over a part of the collection: their judged documents and 1,000
random documents.
"""

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from sentence_transformers.base.evaluation import BaseEvaluator
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

from benchmarks.peers import DEPTH, Task
from benchmarks.peers.material import Keys, Material
from benchmarks.peers.ranking import Ndcg, best, best_fusion, fused
from index.encoding.documents import encode_documents
from index.encoding.encoder import Encoder, load_encoder
from index.encoding.model_files import locate_model
from index.encoding.reference_encoder import SentenceTransformerEncoder
from index.records import Document, Floats, Ints, KeyKind

THREADS = 2
EPOCHS, BATCH_PAIRS, RATE, WARMUP_SHARE = 3, 32, 2e-5, 0.1
RANDOM_DOCUMENTS = 1000
VALIDATION_QUERIES = 300
"""Number of validation queries that are measured after each epoch, at most."""
BATCH_DOCUMENTS = 256


class FineTuning:
    """Changes the encoder itself, so document vectors change too."""

    def __init__(self, material: Material, task: Task) -> None:
        torch.set_num_threads(THREADS)
        self._material, self._task = material, task
        self._cutter = load_encoder(task.encoder).cutter
        self._model = SentenceTransformer(str(locate_model(task.encoder)), device="cpu", local_files_only=True)
        self._fusion = material.fusion
        grown, held_out = material.divided(task.seed)
        self._grown, self._held_out = grown, held_out[:VALIDATION_QUERIES]

    def learn(self) -> dict[str, Any]:
        pairs = self._pairs()
        budget = self._task.fine_tuning_pairs or len(pairs)
        steps = EPOCHS * -(-min(len(pairs), budget) // BATCH_PAIRS)
        chosen = np.random.default_rng(self._task.seed).permutation(len(pairs))[: EPOCHS * budget]
        with tempfile.TemporaryDirectory() as folder:
            states = KeepBest(self._material, self._held_out, self._task.seed, Path(folder))
            SentenceTransformerTrainer(
                self._model,
                self._arguments(folder, steps),
                Dataset.from_list([pairs[at] for at in chosen]),
                loss=MultipleNegativesRankingLoss(self._model),
                evaluator=states,
            ).train()
            self._encoder = SentenceTransformerEncoder(str(Path(folder) / str(states.kept)))
        facts = {"pairs": len(pairs), "pairs_per_epoch": min(len(pairs), budget), "steps": steps}
        return facts | {"validation": [round(value, 4) for value in states.measured], "kept": states.kept}

    def publish(self) -> None:
        """Encode every document anew, as the service does, and choose the fusion with words for the new vectors."""
        self._passages = encoded(self._encoder, self._material, np.arange(len(self._material.ids)))
        train, rows = self._material.train, self._held_out
        ndcg = Ndcg(self._material.gains[rows].toarray())
        dense = self._dense([train.texts[row] for row in rows])
        self._fusion, _ = best_fusion(dense, np.asarray(train.words[rows]), ndcg)

    def rank(self) -> dict[str, Ints]:
        test = self._material.test
        dense = self._dense(test.texts)
        together = fused(self._fusion, dense, test.words)
        return {"fine-tuned": best(dense, DEPTH), "fine-tuned + words": best(together, DEPTH)}

    def _arguments(self, folder: str, steps: int) -> SentenceTransformerTrainingArguments:
        return SentenceTransformerTrainingArguments(
            output_dir=folder,
            max_steps=steps,
            eval_strategy="steps",
            eval_steps=steps // EPOCHS,
            eval_on_start=True,
            save_strategy="no",
            per_device_train_batch_size=BATCH_PAIRS,
            learning_rate=RATE,
            warmup_steps=WARMUP_SHARE,
            batch_sampler="no_duplicates",
            seed=self._task.seed,
            use_cpu=True,
            report_to="none",
            disable_tqdm=True,
            logging_strategy="no",
        )

    def _dense(self, texts: list[str]) -> Floats:
        return self._passages.best(self._encoder.encode(texts), len(self._material.ids))

    def _pairs(self) -> list[dict[str, str]]:
        """Return the train pairs: a query, and the passage of a good document that is nearest to it before training."""
        material, texts = self._material, {}
        rows, doc_indices = material.positives()
        mine = np.isin(rows, self._grown)
        passages = material.passages
        first = np.searchsorted(passages.doc_indices, np.arange(len(material.ids) + 1))
        pairs = []
        for row, at in zip(rows[mine], doc_indices[mine], strict=True):
            if at not in texts:
                texts[at] = self._cutter.passages(material.texts[at], material.titles[at])
            own = passages.vectors[first[at] : first[at + 1]]
            if len(own):
                nearest = texts[at][int(np.argmax(own @ material.train.vectors[row]))]
                pairs.append({"query": material.train.texts[row], "passage": nearest.encoded_text})
        return pairs


class KeepBest(BaseEvaluator):
    """Measures every state of the model on held-out queries, with the encoder of serving, and keeps the best state."""

    def __init__(self, material: Material, rows: Ints, seed: int, folder: Path) -> None:
        super().__init__()
        judged = np.unique(material.gains[rows].nonzero()[1])
        drawn = np.random.default_rng(seed).permutation(len(material.ids))[:RANDOM_DOCUMENTS]
        self._material, self._folder, self._doc_indices = material, folder, np.union1d(judged, drawn)
        self._texts = [material.train.texts[row] for row in rows]
        self._ndcg = Ndcg(material.gains[rows].toarray()[:, self._doc_indices])
        self.measured: list[float] = []

    @property
    def kept(self) -> int:
        """The best state; 0 is the untouched model."""
        return int(np.argmax(self.measured))

    def __call__(
        self, model: Any, output_path: str | None = None, epoch: int = -1, steps: int = -1
    ) -> dict[str, float]:
        folder = self._folder / str(len(self.measured))
        model.save(str(folder), create_model_card=False)
        encoder = SentenceTransformerEncoder(str(folder))
        passages = encoded(encoder, self._material, self._doc_indices)
        part = replace(passages, doc_indices=np.searchsorted(self._doc_indices, passages.doc_indices))
        self.measured.append(self._ndcg.mean(part.best(encoder.encode(self._texts), len(self._doc_indices))))
        return {"ndcg@10": self.measured[-1]}


def encoded(encoder: Encoder, material: Material, doc_indices: Ints) -> Keys:
    """Return the passage keys of these documents."""
    vectors, owners = [], []
    for first in range(0, len(doc_indices), BATCH_DOCUMENTS):
        block = doc_indices[first : first + BATCH_DOCUMENTS]
        documents = [Document(material.ids[at], material.texts[at], material.titles[at] or None) for at in block]
        for doc_index, made in zip(block, encode_documents(encoder, documents, {KeyKind.PASSAGE}), strict=True):
            vectors += [key.vector for key in made.keys]
            owners += [doc_index] * len(made.keys)
    return Keys(np.stack(vectors), np.full(len(owners), int(KeyKind.PASSAGE)), np.asarray(owners, np.int64))
