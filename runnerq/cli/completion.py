"""``runnerq completion``: what makes a shell complete this command when Tab is pressed."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

PROGRAM = "runnerq"
VARIABLE = "_RUNNERQ_COMPLETE"
"""click's own: with it in the environment the command answers a shell, and does nothing else."""


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print what makes a shell complete this command.

    \b
    bash   echo 'eval "$(runnerq completion bash)"' >> ~/.bashrc
    zsh    echo 'eval "$(runnerq completion zsh)"' >> ~/.zshrc
    fish   runnerq completion fish > ~/.config/fish/completions/runnerq.fish

    Then open another shell. Commands, options and their values are completed, modules of the folder, and from the
    database ids of runs, names of workflows and queues, and what a run waits for: the one of --dsn or $RUNNERQ_DSN,
    else the embedded one if it runs.
    """
    made = get_completion_class(shell)
    if made is None:
        raise click.UsageError(f"this click completes no {shell}")
    click.echo(made(ctx.find_root().command, {}, PROGRAM, VARIABLE).source(), nl=False)
