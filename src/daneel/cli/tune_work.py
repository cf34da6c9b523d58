"""What `daneel tune` does between its question and its report: trials with a progress bar, findings, the file of the winner."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

from daneel.bench.diagnose.diagnosis import diagnose
from daneel.bench.diagnose.reading import RunReader
from daneel.bench.finding import Finding
from daneel.bench.lint.checks import lint
from daneel.bench.plan import Plan
from daneel.bench.runners.runner import Runner
from daneel.bench.sources import Sources
from daneel.bench.store import TrialStore
from daneel.bench.tune import written
from daneel.bench.tune.candidates import Propose
from daneel.bench.tune.ledger import LedgerStore, Tuning
from daneel.bench.tune.stages import Stages
from daneel.bench.tune.tuning import Tuner
from daneel.cli.trial_runs import Site, progress_bar, runner_of
from daneel.errors import UserError
from daneel.harness.definition import Harness
from daneel.harness.files import load


def work(
    sources: Sources, tuning: Tuning, store: TrialStore, ledgers: LedgerStore, site: Site, propose: Propose, *, parallel: int
) -> bool:
    """Tune, with a progress bar of trials on standard error. Gives whether Ctrl-C ended it."""
    shown = 0

    def runner(plan: Plan, harnesses: Mapping[str, Harness]) -> Runner:
        with ExitStack() as stack:
            return runner_of(stack, plan, store, site, parallel=parallel)

    with progress_bar(2 * tuning.budget_pairs) as update:

        def tell(num_trials: int, what: str) -> None:
            nonlocal shown
            update(num_trials - shown, what)
            shown = num_trials

        (harness,) = sources.harnesses.values()
        stages = Stages(tuning=tuning, harness=harness, store=store, runner_of=runner, tell=tell)
        tuner = Tuner(stages=stages, findings_of=_findings, propose=propose, save=ledgers.save)
        try:
            tuner.run()
        except KeyboardInterrupt:
            ledgers.save(tuning)
            return True
        except UserError as error:
            ledgers.save(tuning)
            raise UserError(f"{error}; what is stored by then is kept: go on with daneel tune --resume {tuning.id}") from error
    return False


def _findings(measurement: str, arm: str, harness: Harness) -> list[Finding]:
    """What diagnosis says of an arm's trials; only what lint says where they left no transcripts."""
    try:
        with RunReader() as reader:
            runs = [run for run in reader.read(reader.select([measurement])) if run.harness == arm]
    except UserError:
        runs = []
    found = list(diagnose(runs).findings) if runs else []
    return found or lint(arm, harness.declarations())


def finish(sources: Sources, tuning: Tuning, out: Path, *, force: bool) -> tuple[str | None, str]:
    """Write the winner, if there is one; its path, and what the model sees of it that it did not see before."""
    if not tuning.kept:
        return None, ""
    (arm,) = sources.arms
    base = Path(str(arm.file))
    before = load(base).harness(arm.harness)
    after = written.confirmed(base, arm.harness, tuning.kept)
    how = "on held-out goals" if tuning.held_out else "on fresh seeds of the goals it was chosen by"
    text = written.file_text(
        out,
        base,
        arm.harness,
        tuning.kept,
        goals=[name for name, file in sources.goal_files.items() if file == str(base)],
        about=f"{arm.harness}, tuned: confirmed {how}, on {tuning.model.name} (tuning {tuning.id}, H {after.fingerprint()}).",
    )
    name = written.tuned_name(arm.harness)
    written.write(out, text, after, name=name, force=force)
    return str(out), written.declared_diff(before, after.with_changes(name=name))
