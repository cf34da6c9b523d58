"""Tuning: find what is wrong, try what may put it right, keep what pairs of trials confirm; again, until the budget is used.

One round: (1) trials of the harness kept so far, which findings are made from; (2) *screening* of the candidates that come from
the findings, a few pairs each, on the goals that are not held out; (3) *confirmation* of those that look best, one after the
other, by the betting test of `compare.py` on the held-out goals. The first that is confirmed is kept, and the next round
changes it. Without held-out goals, confirmation has seeds of its own.

**Error.** Confirmation number k has alpha/(k (k + 1)), which sums to alpha over any number of them: with a probability of at
least 1 - alpha, nothing is kept that is not better (with `noninferior`, not inferior) on the goals it was confirmed on.
Screening claims nothing, and its trials are never used again for a claim. Nor does giving up early claim anything.

**Budget.** It is counted in trials, two for a pair; those for diagnosis count, attempts beyond a place's first do not.

All that happens follows from the trials, the seed and the stored proposals: a tuning that was interrupted is gone on with by
doing it all again, but for the trials, which are there already.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field

from daneel.bench.compare import BETTER, NOT_INFERIOR, Comparison, Question
from daneel.bench.compare_live import draw_goals, slots
from daneel.bench.finding import USUAL_SD, Finding
from daneel.bench.plan import Plan, remaining
from daneel.bench.record import Trial
from daneel.bench.slot import seed_of
from daneel.bench.statistics.sample_size import fewest_pairs, pairs_needed
from daneel.bench.tune.candidates import Candidate, Propose, candidates
from daneel.bench.tune.edits import edited
from daneel.bench.tune.ledger import KEPT, NOT_CONFIRMED, NOT_TRIED, REFUSED, SCREENED_OUT, Confirmation, Entry, Tuning
from daneel.bench.tune.screening import Screened, affordable, screen
from daneel.bench.tune.stages import Arms, Stages, stage_id
from daneel.harness.definition import Harness

MIN_LOOK, MAX_LOOK = 8, 48
"""Trials that the first findings are made from: a tenth of the budget, within these."""
MAX_CANDIDATES = 16
"""Screened in one round."""
MAX_CONFIRMATIONS = 3
"""In one round."""
HOPELESS_PAIRS = 16
"""After so many pairs, a candidate that is no better in the mean is given up."""
MIN_GAIN = 0.02
"""A candidate that looks better by less is not worth confirming."""
SHRINK = 0.7
"""The best of several looks better than it is; the number of pairs is planned for this share of what it looks like."""


@dataclass(kw_only=True)
class Tuner:
    """Does a tuning, or goes on with one.

    `stages` runs trials; `findings_of` reads those of a measurement's arm; `save` stores the tuning whenever there is news.
    Raises what the runner raises; `KeyboardInterrupt` leaves all that is known stored.
    """

    stages: Stages
    findings_of: Callable[[str, str, Harness], Sequence[Finding]]
    """(measurement, arm, its harness) to findings."""
    propose: Propose
    save: Callable[[Tuning], None]
    failed: set[str] = field(default_factory=set)
    """Candidates that were not confirmed, or looked clearly worse, in words: they are not tried again."""
    num_confirmations: int = 0

    def run(self) -> Tuning:
        """Everything that is left to do."""
        tuning = self.stages.tuning
        tuning.entries, tuning.kept, tuning.num_trials, tuning.ended = [], (), 0, None
        number = 0
        while tuning.ended is None:
            number += 1
            tuning.ended = _Round(self, number).run()
            tuning.kept_hash = edited(self.stages.harness, tuning.kept).fingerprint()
            self.save(tuning)
        return tuning

    def next_alpha(self) -> float:
        """The share of the next confirmation."""
        k = self.num_confirmations + 1
        return self.stages.tuning.alpha / (k * (k + 1))


BUDGET_USED = "the budget is used"


class _Round:
    """One round: look, screen, confirm."""

    def __init__(self, tuner: Tuner, number: int) -> None:
        self._tuner, self._stages, self._number = tuner, tuner.stages, number
        self._tuning = tuner.stages.tuning
        self._base = self._tuning.kept
        kept = [str(entry.number) for entry in self._tuning.entries if entry.status == KEPT]
        self._base_name = "+".join([self._tuning.start.name, *kept])
        self._seed = seed_of(self._tuning.base_seed, 10_000 + number)

    def run(self) -> str | None:
        """Why there is nothing to do after this round; None where there is."""
        num_looked = max(MIN_LOOK, min(MAX_LOOK, self._tuning.budget_pairs // 5))
        if num_looked > self._stages.trials_left:
            return BUDGET_USED
        plan, looked = self._look(num_looked)
        entries = self._entries(plan)
        if not entries:
            return "nothing was found that could be changed and has not been tried"
        screened = self._screen(entries, looked)
        return BUDGET_USED if screened is None else self._confirm_best(screened)

    def _look(self, num: int) -> tuple[Plan, list[Trial]]:
        arms = {self._base_name: self._base}
        plan = self._stages.plan(f"look {self._number}", arms, self._tuning.search_goals, num_trials=num, base_seed=self._seed)
        what = f"round {self._number}: trials of {self._base_name}, to find what is wrong"
        return plan, self._stages.run_places(plan, arms, [self._base_name], range(num), what)

    def _entries(self, plan: Plan) -> dict[str, Entry]:
        """New entries of the ledger, by the name of the arm that each is tried as."""
        harness = edited(self._stages.harness, self._base)
        findings = self._tuner.findings_of(plan.id, self._base_name, harness)
        made, refused = candidates(harness, findings, self._tuner.propose)
        entries: dict[str, Entry] = {}
        for candidate in made:
            if candidate.key not in self._tuner.failed:
                entry = self._entry(candidate)
                entries[f"{self._base_name}+{entry.number}"] = entry
        if self._number == 1:
            for candidate, why in refused:
                entry = self._entry(candidate)
                entry.status, entry.reason = REFUSED, why
        self._tuner.save(self._tuning)
        return entries

    def _entry(self, candidate: Candidate) -> Entry:
        entry = Entry(
            number=len(self._tuning.entries) + 1,
            round=self._number,
            base=self._base_name,
            edits=candidate.edits,
            kind=candidate.kind,
            why=candidate.why,
            source=candidate.source,
            simplifies=candidate.simplifies,
        )
        self._tuning.entries.append(entry)
        return entry

    def _screen(self, entries: dict[str, Entry], looked: list[Trial]) -> list[tuple[Entry, Screened]] | None:
        num, rungs = affordable(min(len(entries), MAX_CANDIDATES), self._stages.trials_left // 2, len(looked))
        chosen = list(entries)[:num]
        for name in list(entries)[num:]:
            entries[name].reason = "not screened: there were others with more to gain, and the budget is bounded"
        if not chosen:
            return None
        arms = {self._base_name: self._base, **{name: (*self._base, *entries[name].edits) for name in chosen}}
        plan = self._stages.plan(
            f"screen {self._number}", arms, self._tuning.search_goals, num_trials=rungs[-1], base_seed=self._seed
        )

        def run(names: Sequence[str], indexes: Iterable[int]) -> list[Trial]:
            wanted = list(indexes)
            what = f"round {self._number}: screening {len(chosen)} changes"
            return self._stages.run_places(plan, arms, names, wanted, what) if names and wanted else []

        result = screen(self._base_name, chosen, looked, run, rungs)
        for each in result:
            entry = entries[each.arm]
            entry.screened_pairs, entry.screened_difference = each.num_pairs, each.mean
            entry.status = SCREENED_OUT if each.is_out or each.mean is None else NOT_TRIED
            entry.reason = "others looked better" if each.is_out else "" if each.mean is not None else "no pair was scored"
            if each.is_worse:
                entry.reason = "it looked clearly worse"
                self._tuner.failed.add(entry.told)
        self._tuner.save(self._tuning)
        return [(entries[each.arm], each) for each in result if each.mean is not None]

    def _confirm_best(self, screened: list[tuple[Entry, Screened]]) -> str | None:
        better = [each for each in screened if (each[1].mean or 0.0) >= MIN_GAIN]
        better.sort(key=lambda each: (each[1].is_out, -(each[1].mean or 0.0)))
        margin = self._tuning.noninferior
        no_worse = [
            each for each in screened if margin is not None and each[0].simplifies and (each[1].mean or 0.0) >= -margin / 2
        ]
        attempts = [(each, None) for each in better] + [(each, margin) for each in no_worse]
        for number, ((entry, found), question_margin) in enumerate(attempts[:MAX_CONFIRMATIONS], start=1):
            if not self._confirm(entry, found, question_margin, number):
                return BUDGET_USED
            if entry.status == KEPT:
                return None
        for entry, _ in screened:
            if entry.status == NOT_TRIED:
                entry.status, entry.reason = SCREENED_OUT, "it did not look better"
        return "nothing more was confirmed" if attempts else "nothing that is left looked better"

    def _confirm(self, entry: Entry, found: Screened, margin: float | None, number: int) -> bool:
        """Test a candidate against what is kept so far. False: the budget is not enough for that."""
        alpha, tuner = self._tuner.next_alpha(), self._tuner
        looks_like = (found.mean or 0.0) + (margin or 0.0)
        difference = min(1.0, max(MIN_GAIN, SHRINK * looks_like))
        wanted = pairs_needed(difference, min(1.0, found.sd or USUAL_SD), alpha=alpha)
        max_pairs = min(max(wanted, 2 * fewest_pairs(difference, alpha=alpha)), self._stages.trials_left // 2)
        if max_pairs < fewest_pairs(min(1.0, max(MIN_GAIN, looks_like)), alpha=alpha):
            entry.status, entry.reason = NOT_CONFIRMED, "there was no budget left to confirm it"
            return False
        tuner.num_confirmations += 1
        entry.reason = "its confirmation is under way"
        question = Question(max_pairs=max_pairs, alpha=alpha, noninferior=margin)
        comparison = self._compare(entry, question, number)
        (answer,) = comparison.answers()
        entry.confirmation = Confirmation(
            measurement=stage_id(self._tuning.id, f"confirm {self._number}.{number}"),
            question="better" if margin is None else f"not worse by {margin:g}",
            alpha=alpha,
            num_pairs=answer.num_pairs,
            difference=answer.difference,
            interval=answer.interval,
            e_value=answer.e_value or 0.0,
            verdict=answer.verdict,
        )
        if answer.verdict == (BETTER if margin is None else NOT_INFERIOR):
            entry.status, entry.reason = KEPT, ""
            self._tuning.kept = (*self._base, *entry.edits)
            for other in self._tuning.entries:
                if other.round == self._number and other.status == NOT_TRIED and not other.reason:
                    other.reason = f"#{entry.number} was kept first"
        else:
            entry.status, entry.reason = NOT_CONFIRMED, answer.verdict
            tuner.failed.add(entry.told)
        tuner.save(self._tuning)
        return True

    def _compare(self, entry: Entry, question: Question, number: int) -> Comparison:
        name = f"{self._base_name}+{entry.number}"
        arms = {name: (*self._base, *entry.edits), self._base_name: self._base}
        plan = self._stages.plan(
            f"confirm {self._number}.{number}",
            arms,
            self._tuning.confirm_goals,
            num_trials=question.max_pairs,
            base_seed=seed_of(self._tuning.base_seed, 20_000 + 100 * self._number + number),
        )
        goals = draw_goals([goal.name for goal in plan.goals], question.max_pairs, plan.base_seed)
        comparison = Comparison([name, self._base_name], question, [[goal] for goal in goals])
        stored = self._stages.store.trials(plan.id)
        for trial in self._followed(comparison, plan, arms, stored):
            pairs = (
                f"{comparison.num_pairs} pairs, e-value {comparison.pairings[0].test.e_value:.1f} of {1 / question.alpha:.0f}"
            )
            self._stages.count(trial, f"round {self._number}: confirming {name}, {pairs}")
        return comparison

    def _followed(self, comparison: Comparison, plan: Plan, arms: Arms, stored: Sequence[Trial]) -> Iterator[Trial]:
        """Trials, stored ones first, until it is known, or hopeless."""
        for trial in stored:
            comparison.add(trial)
            yield trial
        if comparison.decided or _hopeless(comparison):
            return
        places = remaining(slots(comparison, plan), stored)
        with closing(self._stages.runner(plan, arms).run(places)) as trials:
            for trial in trials:
                comparison.add(trial)
                yield trial
                if comparison.decided or _hopeless(comparison):
                    return


def _hopeless(comparison: Comparison) -> bool:
    """Whether it is given up. To stop a betting test for any reason at all claims nothing, and costs nothing but power."""
    (pairing,) = comparison.pairings
    mean = pairing.test.mean
    return pairing.test.count >= HOPELESS_PAIRS and mean is not None and mean <= comparison.question.null
