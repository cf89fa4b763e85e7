package store

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
)

func TestEveryWaiterGoesOnWhenOneCommitHasRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, full := new(Memory), true
		db := opened(t, m)
		m.Before = func(int) error {
			if full {
				return ErrFull
			}
			return nil
		}
		begun := time.Now()
		done := make(chan time.Duration, 3)
		for range cap(done) {
			go func() {
				if err := db.UpdateWithRoom(t.Context(), put("a", "1")); err != nil {
					t.Error(err)
				}
				done <- time.Since(begun)
			}()
		}
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if s := db.Shortage(); s == nil || !s.Since.Equal(begun) || !errors.Is(s.Err, ErrFull) {
			t.Errorf("the shortage is %+v", s)
		}
		full = false
		if err := db.Update(put("b", "1")); err != nil {
			t.Fatal(err)
		}
		for range cap(done) {
			if took := <-done; took != 10*time.Minute {
				t.Errorf("a waiter went on %s after there was room", took-10*time.Minute)
			}
		}
		if s := db.Shortage(); s != nil {
			t.Errorf("the shortage has not ended: %+v", s)
		}
	})
}

func TestAMissingBallastIsReservedAgain(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "store.db")
	const size = 64 << 10
	db, err := Open(path, Options{Ballast: size})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := os.Remove(path + ".ballast"); err != nil {
		t.Fatal(err)
	}
	db.ReserveSpace()
	if info, err := os.Stat(path + ".ballast"); err != nil || info.Size() != size {
		t.Errorf("the ballast: %v, %v", info, err)
	}
}

func TestWhoStopsWaitingForRoomIsToldThatTheDiskIsFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := new(Memory)
		db := opened(t, m)
		m.Before = func(int) error { return ErrFull }
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := db.UpdateWithRoom(ctx, put("a", "1")); !errors.Is(err, ErrFull) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		m.Before = nil
	})
}
