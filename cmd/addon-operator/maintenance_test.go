package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"addon-operator/cmd/addon-operator/settings"
	"addon-operator/e2e/disk"
	"addon-operator/store"
)

// TestATrimOnAFullDiskCountsEachByteOnce trims the history to the size of its newest run. The first commit of the trim
// finds a full disk and is repeated. The older runs must be removed, and the log must have their size.
func TestATrimOnAFullDiskCountsEachByteOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, 1<<30); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		memory := new(store.Memory)
		db, err := store.OpenMemory(memory, store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		for run := range uint64(3) {
			if err := db.Update(func(tx *store.Tx) error {
				for range trimPiece * 3 / 4 {
					if err := store.AddRecord(tx, store.Record{Run: run + 1, Node: "n", State: store.Done}); err != nil {
						return err
					}
				}
				return store.Save(tx, store.RunKey(run+1), store.Run{ID: run + 1, Ended: tx.Now()})
			}); err != nil {
				t.Fatal(err)
			}
		}
		var log bytes.Buffer
		m := &maintenance{db: db, log: zerolog.New(&log), path: path, historyAge: time.Hour}
		before, err := m.excess()
		if err != nil {
			t.Fatal(err)
		}
		m.historyBytes = before / 3
		full := true
		memory.Before = func(int) error {
			if full {
				full = false
				return store.ErrFull
			}
			return nil
		}
		if err := m.trim(t.Context()); err != nil {
			t.Fatal(err)
		}
		m.historyBytes = 0
		after, err := m.excess()
		if err != nil {
			t.Fatal(err)
		}
		var left []uint64
		if err := db.View(func(tx *store.Tx) error {
			for run, err := range store.RunsBackwards(tx) {
				if err != nil {
					return err
				}
				left = append(left, run.ID)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]uint64{3}, left); diff != "" {
			t.Errorf("runs left (-want +got):\n%s", diff)
		}
		var line struct {
			Bytes int64 `json:"bytes"`
		}
		if err := json.Unmarshal(log.Bytes(), &line); err != nil || line.Bytes != before-after {
			t.Errorf("%d bytes were removed, and the log has %s (%v)", before-after, log.String(), err)
		}
	})
}

func TestASnapshotIsDueAnIntervalAfterTheNewestOneOrSoonIfThereIsNone(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		for name, c := range map[string]struct {
			age, every, want time.Duration // the age is 0 if there is no snapshot
		}{
			"none":                            {0, time.Hour, time.Minute},
			"none, and the interval is short": {0, time.Second, time.Second},
			"recent":                          {20 * time.Minute, time.Hour, 40 * time.Minute},
			"overdue":                         {2 * time.Hour, time.Hour, time.Minute},
			"in the future":                   {-2 * time.Hour, time.Hour, time.Hour},
		} {
			m := &maintenance{path: filepath.Join(dir, name), snapshotEvery: c.every}
			if c.age != 0 {
				path, made := m.path+".snapshot-20260101T000000Z", time.Now().Add(-c.age)
				if err := os.WriteFile(path, nil, 0o600); err != nil {
					t.Fatal(err)
				}
				if err := os.Chtimes(path, made, made); err != nil {
					t.Fatal(err)
				}
			}
			if got := m.untilSnapshot(); got != c.want {
				t.Errorf("%s: the next snapshot is due in %s, want %s", name, got, c.want)
			}
		}
	})
}

func TestASnapshotRemovesTheUnfinishedSnapshotsOfKilledProcesses(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "store.db")
	db, err := store.Open(path, store.Options{Clock: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, name := range []string{
		".store.db.snapshot-20260101T000000Z.new", ".store.db.snapshot-20260101T010000Z.new", ".store.db.snapshot-of-a-person.new",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("a part of a store"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	m := &maintenance{db: db, path: path}
	if err := m.snapshot(); err != nil {
		t.Fatal(err)
	}
	var got []string
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		got = append(got, f.Name())
	}
	snapshots, err := m.snapshots()
	if err != nil || len(snapshots) != 1 {
		t.Fatalf("the snapshots are %q, %v", snapshots, err)
	}
	want := []string{".store.db.snapshot-of-a-person.new", "store.db", filepath.Base(snapshots[0])}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the files beside the store (-want +got):\n%s", diff)
	}
}

// TestASnapshotThatDoesNotFitReplacesTheOldestOnes writes snapshots on a disk of 24 MiB. The store uses more than 3 MiB
// of the disk.
func TestASnapshotThatDoesNotFitReplacesTheOldestOnes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		old  []int // sizes of the old snapshots in MiB, oldest first
		left int   // number of old snapshots that are left
		err  string
	}{
		"no old snapshot has to be removed":      {[]int{2, 2, 2}, 2, ""}, // because three snapshots are kept
		"the oldest one is removed":              {[]int{6, 6, 6}, 2, ""},
		"all but the newest one are removed":     {[]int{2, 2, 13}, 1, ""},
		"the newest one is kept":                 {[]int{18}, 1, "enlarge the volume"},
		"the others are not removed to no avail": {[]int{1, 17}, 2, "enlarge the volume"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(disk.New(t, "24m").Dir, "store.db")
			db, err := store.Open(path, store.Options{Clock: time.Now})
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			if err := db.Update(func(tx *store.Tx) error {
				return store.Save(tx, store.ModuleKey("large"), strings.Repeat("x", 3<<20))
			}); err != nil {
				t.Fatal(err)
			}
			for i, size := range c.old {
				if err := os.WriteFile(fmt.Sprintf("%s.snapshot-2026010%dT000000Z", path, i+1), make([]byte, size<<20), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			m := &maintenance{db: db, path: path}
			before, err := m.snapshots()
			if err != nil {
				t.Fatal(err)
			}
			want := before[len(before)-c.left:]
			err = m.snapshot()
			if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("the error is %v, want %q", err, c.err)
			}
			got, err := m.snapshots()
			if err != nil {
				t.Fatal(err)
			}
			if c.err == "" {
				got = got[:len(got)-1] // without the new one
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("the old snapshots that are left (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDamagedRecordsAreLoggedAMinuteAfterTheStart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	open := func() *store.DB {
		db, err := store.Open(path, store.Options{Clock: time.Now})
		if err != nil {
			t.Fatal(err)
		}
		return db
	}
	db, key := open(), store.At(store.Modules).Str("web")
	if err := errors.Join(db.Update(func(tx *store.Tx) error {
		return store.Save(tx, key, "flipped")
	}), db.Close()); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[bytes.LastIndex(b, []byte("flipped"))] ^= 1
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		db := open()
		log := new(syncedBuffer)
		m := newMaintenance(db, &settings.Settings{Store: path}, zerolog.New(log))
		ctx, stop := context.WithCancel(t.Context())
		go m.run(ctx)
		time.Sleep(time.Minute - time.Second)
		synctest.Wait()
		if log.String() != "" {
			t.Errorf("before the minute has passed, the log has %s", log.String())
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if got := log.String(); strings.Count(got, "record damaged") != 1 || !strings.Contains(got, key.String()) {
			t.Errorf("the log has %s", got)
		}
		stop()
		synctest.Wait()
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
}
