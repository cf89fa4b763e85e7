package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"sync"
)

// mostCleanExits is the maximum number of epochs in a note of clean exits.
const mostCleanExits = 32

// mostEpochs is greater than any epoch of a store. The note of clean exits has no checksum, so greater numbers in the
// note are ignored as damaged.
const mostEpochs = 1 << 40

// noteSize is the size in bytes of the file with the note of clean exits. If the store has a ballast, Open allocates
// the disk space of the file, so that the note can be written when the disk is full.
const noteSize = 4096

// cleanExits has the epochs of processes that ended without a crash, but could not record this fact in the store. These
// epochs are kept in a note, which is a file beside the store.
type cleanExits struct {
	note  exitNote
	known []uint64 // the epochs of the note when the store was opened

	mu sync.Mutex // locked while the note is written
}

// An exitNote stores the epochs of clean exits.
type exitNote interface {
	read() []uint64
	write(epochs []uint64) error
}

// readCleanExits reads the epochs in a note. Old epochs can stay in the note, because an epoch is never used again.
func readCleanExits(note exitNote) *cleanExits { return &cleanExits{note: note, known: note.read()} }

// newest returns the greatest epoch in the note; 0 if there is none.
func (c *cleanExits) newest() uint64 {
	if c == nil || len(c.known) == 0 {
		return 0
	}
	return slices.Max(c.known)
}

// ExitedCleanly reports whether the process of that epoch exited cleanly, according to the note of clean exits. The
// note has only the clean exits that could not be written to the store itself, for example because a commit failed or
// the disk was full.
func (db *DB) ExitedCleanly(epoch uint64) bool {
	return db.exits != nil && slices.Contains(db.exits.known, epoch)
}

// NoteCleanExit records in the note of clean exits that this process exits cleanly. It is for a process that cannot
// record its clean exit in the store itself. If NoteCleanExit fails, the next process treats the end of this process as
// a crash.
func (db *DB) NoteCleanExit() error {
	if db.exits == nil { // the store is read-only
		return nil
	}
	return db.exits.add(db.Epoch())
}

// add adds an epoch to the note. If the note is full, it removes the oldest epochs.
func (c *cleanExits) add(epoch uint64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if slices.Contains(c.known, epoch) {
		return nil
	}
	epochs := append(slices.Clone(c.known), epoch)
	return c.note.write(epochs[max(0, len(epochs)-mostCleanExits):])
}

// exitsFile is the note in a file beside the store.
type exitsFile struct{ path string }

// prepare writes the note with its full size, so that its disk space is allocated. If the disk has no space for the
// note, the store works without this allocation, and NoteCleanExit may fail.
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
		return // NoteCleanExit tries to write the note anyway
	}
}

// padded returns text, padded with spaces to the size of the note.
func padded(text []byte) []byte {
	return append(text, bytes.Repeat([]byte(" "), max(0, noteSize-len(text)))...)
}

func (f exitsFile) read() (epochs []uint64) {
	text, err := os.ReadFile(f.path)
	if err != nil || json.Unmarshal(text, &epochs) != nil {
		return nil
	}
	return slices.DeleteFunc(epochs, func(epoch uint64) bool { return epoch > mostEpochs })
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

// exitsIn is the note of clean exits for a store in memory.
type exitsIn struct{ memory *Memory }

func (e exitsIn) read() []uint64 {
	e.memory.mu.Lock()
	defer e.memory.mu.Unlock()
	return e.memory.exits
}

// write returns an error after a simulated crash, because a crashed process cannot write.
func (e exitsIn) write(epochs []uint64) error {
	e.memory.mu.Lock()
	defer e.memory.mu.Unlock()
	if e.memory.crashed {
		return errors.New("the process has crashed")
	}
	e.memory.exits = epochs
	return nil
}
