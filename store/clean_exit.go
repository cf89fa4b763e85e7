package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"slices"
)

// mostCleanExits is how many epochs a note of clean exits holds.
const mostCleanExits = 32

// noteSize is the size of the file with the note. Its space is allocated when the store is opened, so
// that the note can be written on a full disk.
const noteSize = 4096

// cleanExits are the epochs whose process ended as it was meant to, or because of the store, and that
// could not say so in the store.
type cleanExits interface {
	read() []uint64
	write(epochs []uint64) error
}

// ExitedCleanly reports whether the process of that epoch ended without fault of the tasks that ran,
// although the store does not say so: a commit had failed, or the disk was full.
func (db *DB) ExitedCleanly(epoch uint64) bool { return slices.Contains(db.exited, epoch) }

// NoteCleanExit writes beside the store that this process ends as it is meant to, for when the store
// takes nothing more. Where that fails as well, its end looks like a crash.
func (db *DB) NoteCleanExit() error {
	if db.exits == nil {
		return nil
	}
	db.noting.Lock()
	defer db.noting.Unlock()
	if slices.Contains(db.exited, db.epoch) {
		return nil
	}
	epochs := append(slices.Clone(db.exited), db.epoch)
	return db.exits.write(epochs[max(0, len(epochs)-mostCleanExits):])
}

// keepCleanExits reads which epochs ended cleanly and keeps the note for this one. The note is never
// deleted: epochs are not used again.
func (db *DB) keepCleanExits(exits cleanExits) {
	db.exits = exits
	db.exited = exits.read()
}

// exitsFile is the note in a file beside the store.
type exitsFile struct{ path string }

// prepare gives the file its space. A disk without that space is no reason not to go on.
func (f exitsFile) prepare() {
	if info, err := os.Stat(f.path); err == nil && info.Size() >= noteSize {
		return
	}
	file, err := os.OpenFile(f.path, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return
	}
	text, err := json.Marshal(f.read())
	if err == nil {
		_, err = file.WriteAt(padded(text), 0)
	}
	if errors.Join(err, file.Sync(), file.Close()) != nil {
		return // NoteCleanExit will fail, which it says
	}
}

// padded returns text followed by spaces, of the size of the note.
func padded(text []byte) []byte {
	return append(text, bytes.Repeat([]byte(" "), max(0, noteSize-len(text)))...)
}

func (f exitsFile) read() (epochs []uint64) {
	text, err := os.ReadFile(f.path)
	if err != nil || json.Unmarshal(text, &epochs) != nil {
		return nil
	}
	return epochs
}

func (f exitsFile) write(epochs []uint64) error {
	text, err := json.Marshal(epochs)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(f.path, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	_, err = file.WriteAt(padded(text), 0)
	return errors.Join(err, file.Sync(), file.Close())
}

// exitsIn is the note of a store in memory.
type exitsIn struct{ memory *Memory }

func (e exitsIn) read() []uint64 {
	e.memory.mu.Lock()
	defer e.memory.mu.Unlock()
	return e.memory.exits
}

// A process that has crashed writes nothing.
func (e exitsIn) write(epochs []uint64) error {
	e.memory.mu.Lock()
	defer e.memory.mu.Unlock()
	if e.memory.crashed {
		return errors.New("the process has crashed")
	}
	e.memory.exits = epochs
	return nil
}
