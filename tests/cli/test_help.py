"""What the tool says about itself: help, man pages and completions all come from one table and agree with each other."""
import re
import shutil
import subprocess

import tap
from tool import environment, penstock, scratch


def command_names():
    lines = penstock("help").out.split("Commands:\n")[1].split("\n\n")[0].splitlines()
    return [line.split()[0] for line in lines if re.match(r"  \w", line)]


def option_names(command):
    """As the completion offers them: straight from the table."""
    script = penstock("completion", "bash").out.split("    case $command in\n")[1]
    return re.search(rf"    {command}\)\n.*?words='([^']*)'", script)[1].split()


def test_every_command_is_there():
    names = command_names()
    for name in ("pack", "inspect", "index", "repair", "plan", "bench", "cat", "ops", "generate", "help", "version", "completion", "man"):
        assert name in names, f"{name} not in {names}"


def test_help_mentions_every_option():
    for name in command_names():
        text = penstock("help", name).out
        assert text.startswith(f"usage: penstock {name}"), text
        assert text == penstock(name, "--help").out == penstock(name, "-h").out
        for option in option_names(name):
            assert re.search(rf"^ .* {option}\b", text, re.M), f"{option} is not in the help of {name}"


def test_help_has_examples():
    for name in ("pack", "inspect", "index", "repair", "plan", "bench", "cat", "generate"):
        examples = penstock("help", name).out.split("Examples:\n")[1]
        assert f"  penstock {name} " in examples


def test_help_wraps_at_the_width():
    for columns in (40, 60, 80, 100):
        for name in command_names():
            for line in penstock("help", name, env={"COLUMNS": str(columns)}).out.split("\nExamples:")[0].splitlines():
                words = line.split()
                assert len(line) < columns or len(words) <= 2 or line.startswith("usage:"), (columns, line)


def test_help_is_plain_where_there_is_no_terminal():
    assert "\033" not in penstock("help", "pack", env={"TERM": "xterm"}).out


def test_no_arguments_is_wrong_usage():
    result = penstock(code=2)
    assert result.out == "" and "Commands:" in result.err


def test_exit_codes_are_documented():
    for text in (penstock("help").out, penstock("man").out, penstock("man", "pack").out):
        for code in ("0", "1", "2", "3", "130"):
            assert re.search(rf"^\s*(\.B )?{code}\b", text, re.M), code


def test_version():
    number = penstock("version").out.split()[1]
    assert re.fullmatch(r"\d+\.\d+\.\d+", number)
    assert penstock("--version").out == penstock("-V").out == f"penstock {number}\n"
    assert penstock("version", "--json").out == f'{{"version": "{number}"}}\n'


def test_man_pages_mention_every_option():
    for name in command_names():
        page = penstock("man", name).out.replace("\\-", "-")
        assert page.startswith(f".TH PENSTOCK-{name.upper()} 1")
        for option in option_names(name):
            assert f"\\fB{option}\\fR" in page, f"{option} is not in the man page of {name}"


def test_man_pages_format_without_warnings():
    if not shutil.which("groff"):
        raise tap.Skip("groff is not installed")
    for arguments in [()] + [(name,) for name in command_names()]:
        page = penstock("man", *arguments).out
        done = subprocess.run(["groff", "-man", "-ww", "-Tutf8"], input=page.encode(), capture_output=True)
        assert done.returncode == 0 and not done.stderr, (arguments, done.stderr)


def complete(*words):
    """What bash offers for the last of `words`."""
    with scratch() as folder:
        with open(f"{folder}/penstock", "w") as f:
            f.write(penstock("completion", "bash").out)
        script = f'compopt() {{ :; }}; source {folder}/penstock; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _penstock; ' \
                 'printf "%s\\n" "${COMPREPLY[@]}"'
        done = subprocess.run(["bash", "-c", script, "bash", *words], capture_output=True, text=True, env=environment())
        assert done.returncode == 0 and not done.stderr, done
        return done.stdout.split()


def test_bash_completes():
    if not shutil.which("bash"):
        raise tap.Skip("bash is not installed")
    assert set(command_names()) <= set(complete("penstock", ""))
    assert complete("penstock", "gen") == ["generate"]
    assert complete("penstock", "pack", "--shar") == ["--shards", "--shard-size"]
    assert complete("penstock", "pack", "--format", "p") == ["png"]
    assert complete("penstock", "pack", "--format", "=", "w") == ["webp"]
    assert complete("penstock", "pack", "--shards", "") == []
    assert complete("penstock", "completion", "") == ["bash", "zsh", "fish"]
    assert set(complete("penstock", "help", "")) == set(command_names())
    assert complete("penstock", "ops", "tfr") == ["tfrecord"]
    for command in ("plan", "bench", "cat"):
        for begun in ("tfr", '"tfr', "'tfr"):
            assert complete("penstock", command, begun) == ["tfrecord"], (command, begun)
        assert "--json" in complete("penstock", command, "--j")


def test_completions_are_valid_scripts():
    for shell in ("bash", "zsh", "fish"):
        script = penstock("completion", shell).out
        for name in command_names():
            assert name in script
        if not shutil.which(shell):
            continue
        done = subprocess.run([shell, "-n"], input=script.encode(), capture_output=True)
        assert done.returncode == 0, done.stderr


tap.main(globals())
