"""The ledger of a host's devices, as its processes find it on disk."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Collection, Iterable
from pathlib import Path

import pytest

from lancegpu_sql.catalog.models import ProcessIdentity
from lancegpu_sql.errors import StorageError
from lancegpu_sql.placement.host import MemoryKills
from lancegpu_sql.placement.leases import Claim
from lancegpu_sql.placement.ledger import Ledger
from lancegpu_sql.placement.mailbox import Mailbox
from lancegpu_sql.placement.own_claims import OwnClaims
from lancegpu_sql.placement.runtime_folder import open_runtime_folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    open_runtime_folder(folder)
    return folder


@pytest.fixture
def ledger(folder: Path) -> Ledger:
    return Ledger(folder)


def claim(name: str, process: ProcessIdentity | None = None, mailbox: str = "nobody's") -> Claim:
    return Claim(
        id=name,
        owner=f"job {name}",
        gpu_class="l4",
        candidates=("d0",),
        gpus=1,
        asked_at=float(ord(name[0])),
        mailbox=mailbox,
        process=process or ProcessIdentity.current(),
    )


def holders(ledger: Ledger) -> list[str]:
    return [one.id for one in ledger.exchange(()) if one.devices]


def test_a_claim_is_seen_by_others(folder: Path, ledger: Ledger) -> None:
    ledger.exchange([claim("a")])
    assert holders(Ledger(folder)) == ["a"]


def test_a_claim_that_is_given_up_frees_its_device_in_the_same_breath(ledger: Ledger) -> None:
    ledger.exchange([claim("a"), claim("b")])
    ledger.exchange((), gone={"a"})
    assert holders(ledger) == ["b"]


def test_a_recycled_process_number_is_not_taken_for_the_holder(ledger: Ledger) -> None:
    before_us = ProcessIdentity.current().model_copy(update={"started_at": 1.0})
    ledger.exchange([claim("a", before_us), claim("b")])
    assert holders(ledger) == ["b"]


def test_what_was_claimed_before_a_reboot_is_free(ledger: Ledger) -> None:
    earlier = ProcessIdentity.current().model_copy(update={"boot": "0" * 36 + "[1]"})
    ledger.exchange([claim("a", earlier), claim("b")])
    assert holders(ledger) == ["b"]


def in_another_container() -> ProcessIdentity:
    me = ProcessIdentity.current()
    return me.model_copy(update={"boot": me.boot[:36] + "[1]"})


def test_a_holder_in_another_container_lives_as_long_as_its_mailbox(folder: Path, ledger: Ledger) -> None:
    mailbox = Mailbox(folder)
    ledger.exchange([claim("a", in_another_container(), mailbox.name), claim("b")])
    assert holders(ledger) == ["a"]
    mailbox.close()
    assert holders(ledger) == ["b"]


def test_all_who_have_claims_are_woken_by_a_change(folder: Path, ledger: Ledger) -> None:
    mailbox = Mailbox(folder)
    ledger.exchange([claim("a", mailbox=mailbox.name)])
    mailbox.empty()
    ledger.exchange([claim("b")])
    assert os.read(mailbox.fileno(), 1) == b"!"
    mailbox.close()


def test_a_look_that_changes_nothing_wakes_nobody(folder: Path, ledger: Ledger) -> None:
    mailbox = Mailbox(folder)
    ledger.exchange([claim("a", mailbox=mailbox.name)])
    mailbox.empty()
    ledger.exchange([claim("a", mailbox=mailbox.name)])
    with pytest.raises(BlockingIOError):
        os.read(mailbox.fileno(), 1)
    mailbox.close()


def test_a_damaged_ledger_is_told_and_not_overwritten(folder: Path, ledger: Ledger) -> None:
    (folder / "ledger.json").write_text("{")
    with pytest.raises(StorageError, match=r"ledger\.json, is damaged or another release's; remove it when no worker"):
        ledger.exchange([claim("a")])
    assert (folder / "ledger.json").read_text() == "{"


def test_another_releases_ledger_is_not_touched(folder: Path, ledger: Ledger) -> None:
    (folder / "ledger.json").write_text('{"format": 2, "claims": []}')
    with pytest.raises(StorageError):
        ledger.exchange([claim("a")])


def test_a_folder_that_is_cleared_away_is_made_anew(folder: Path, ledger: Ledger) -> None:
    (folder / "ledger.lock").unlink(missing_ok=True)
    folder.rmdir()
    ledger.exchange([claim("a")])
    assert folder.stat().st_mode & 0o777 == 0o700


def test_a_claim_survives_the_loss_of_the_ledger_with_its_device(folder: Path, ledger: Ledger) -> None:
    mine = OwnClaims(ledger)
    mine.enter(claim("b"))
    (folder / "ledger.json").unlink()
    ledger.exchange([claim("a")])
    assert [one.devices for one in mine.look() if one.id == "b"] == [("d0",)]


def test_what_could_not_be_given_up_is_given_up_later(folder: Path, ledger: Ledger) -> None:
    mine = OwnClaims(ledger)
    mine.enter(claim("a"))
    blocked = folder / "ledger.draft"
    blocked.mkdir()
    mine.leave("a")
    assert mine.unwritten
    blocked.rmdir()
    assert mine.look() == ()
    assert not mine.unwritten


def test_a_claim_that_cannot_be_written_is_not_made(folder: Path, ledger: Ledger) -> None:
    mine = OwnClaims(ledger)
    (folder / "ledger.draft").mkdir()
    with pytest.raises(StorageError, match="could not be kept"):
        mine.enter(claim("a"))
    (folder / "ledger.draft").rmdir()
    assert mine.look() == ()


class LosesItsReply(Ledger):
    """A ledger that takes what it is told, and then says that it could not."""

    def exchange(self, mine: Iterable[Claim], gone: Collection[str] = ()) -> tuple[Claim, ...]:
        after = super().exchange(mine, gone)
        if mine:
            raise StorageError("no descriptor was left to wake others")
        return after


def test_a_claim_that_was_written_and_refused_all_the_same_is_given_up(folder: Path, ledger: Ledger) -> None:
    mine = OwnClaims(LosesItsReply(folder))
    with pytest.raises(StorageError):
        mine.enter(claim("a"))
    mine.look()
    assert holders(ledger) == []


def test_no_claim_is_lost_when_many_write_at_once(ledger: Ledger) -> None:
    names = [f"{letter}{number}" for letter in "abcd" for number in range(10)]
    writers = [
        threading.Thread(target=lambda mine=names[start::4]: [ledger.exchange([claim(name)]) for name in mine])
        for start in range(4)
    ]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert sorted(one.id for one in ledger.exchange(())) == sorted(names)


def test_a_process_killed_while_it_writes_leaves_a_whole_ledger(folder: Path, ledger: Ledger) -> None:
    ledger.exchange([claim("a")])
    program = (
        "import os, sys\nfrom pathlib import Path\nfrom lancegpu_sql.placement.ledger import Ledger\n"
        "Path.replace = lambda *_: os.kill(os.getpid(), 9)\nLedger(Path(sys.argv[1])).exchange((), {'a'})\n"
    )
    assert subprocess.run([sys.executable, "-c", program, folder], check=False).returncode == -9
    assert holders(ledger) == ["a"]


def test_a_folder_of_another_user_is_refused(tmp_path: Path) -> None:
    foreign = tmp_path if os.getuid() == 0 else Path("/usr")
    if os.getuid() == 0:
        os.chown(foreign, 12345, -1)
    with pytest.raises(StorageError, match="it belongs to another user"):
        open_runtime_folder(foreign)


def test_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    with pytest.raises(StorageError, match="it is a link"):
        open_runtime_folder(tmp_path / "link")


def test_a_folder_that_others_may_enter_is_refused_and_left_alone(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    with pytest.raises(StorageError, match="others may enter it"):
        open_runtime_folder(tmp_path)
    assert tmp_path.stat().st_mode & 0o777 == 0o755


def test_each_counted_kill_explains_one_death(tmp_path: Path) -> None:
    counter = tmp_path / "memory.events"
    counter.write_text("low 0\noom 3\noom_kill 3\n")
    kills = MemoryKills(counter)
    assert not kills.explains_one()
    counter.write_text("low 0\noom 4\noom_kill 4\n")
    assert kills.explains_one()
    assert not kills.explains_one()


def test_kills_counted_before_are_forgotten(tmp_path: Path) -> None:
    counter = tmp_path / "memory.events"
    counter.write_text("oom_kill 3\n")
    kills = MemoryKills(counter)
    counter.write_text("oom_kill 4\n")
    kills.forget()
    assert not kills.explains_one()


def test_without_a_count_no_death_is_put_down_to_memory(tmp_path: Path) -> None:
    assert not MemoryKills(tmp_path / "missing").explains_one()
