package store

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"go.etcd.io/bbolt"
)

// record is a JSON text that is about as large as the header of a task.
var record = []byte(`"` + strings.Repeat("x", 298) + `"`)

// transitionKeys returns the keys that a typical transition writes. The transition deletes the first key.
func transitionKeys(writer, n uint64) [6]Key {
	queue := At(Metrics).Str(fmt.Sprint("queue-", writer))
	return [...]Key{
		queue.Uint(n - 1).Uint32(0),
		queue.Uint(n).Uint32(0),
		At(Values).Str("section"),
		At(Modules).Uint(writer),
		At(Releases).Uint(writer).Uint(n),
		At(EnabledOverrides).Uint(writer),
	}
}

func transition(tx *Tx, writer, n uint64) error {
	keys := transitionKeys(writer, n)
	tx.Delete(keys[0])
	for _, k := range keys[1:] {
		tx.Put(k, record)
	}
	return nil
}

// benched returns a new store on disk, which is closed when b ends.
func benched(b *testing.B) *DB {
	b.Helper()
	db, err := Open(filepath.Join(b.TempDir(), "store.db"), Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := db.Close(); err != nil {
			b.Error(err)
		}
	})
	return db
}

// BenchmarkUpdate measures the cost of a transition in a store on disk, for several numbers of
// concurrent transitions.
func BenchmarkUpdate(b *testing.B) {
	for _, writers := range []int{1, 8, 64} {
		b.Run(fmt.Sprint(writers), func(b *testing.B) {
			db := benched(b)
			durable := new(atomic.Int64)
			if b, ok := db.backend.(*bolt); ok {
				durable = &b.durable
			}
			before := durable.Load()
			b.ReportAllocs()
			run(b, writers, func(writer, n uint64) error {
				return db.Update(func(tx *Tx) error { return transition(tx, writer, n) })
			})
			b.ReportMetric(2*float64(durable.Load()-before)/float64(b.N), "fdatasync/op")
		})
	}
}

// BenchmarkUpdateMemory measures the cost of a transition in a store in memory.
func BenchmarkUpdateMemory(b *testing.B) {
	db, err := OpenMemory(new(Memory), Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	b.ReportAllocs()
	run(b, 1, func(writer, n uint64) error {
		return db.Update(func(tx *Tx) error { return transition(tx, writer, n%1000+1) })
	})
}

// BenchmarkRaw measures the cost of the writes of BenchmarkUpdate if bbolt is used directly,
// without this package.
func BenchmarkRaw(b *testing.B) {
	for _, writers := range []int{1, 8, 64} {
		b.Run(fmt.Sprint(writers), func(b *testing.B) {
			db, err := bbolt.Open(filepath.Join(b.TempDir(), "raw.db"), 0o600, &bbolt.Options{
				FreelistType: bbolt.FreelistMapType, InitialMmapSize: 1 << 30, NoStatistics: true,
			})
			if err != nil {
				b.Fatal(err)
			}
			defer db.Close()
			if err := db.Update(func(tx *bbolt.Tx) error {
				_, err := tx.CreateBucket([]byte("b"))
				return err
			}); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			run(b, writers, func(writer, n uint64) error {
				return db.Update(func(tx *bbolt.Tx) error { return rawTransition(tx.Bucket([]byte("b")), writer, n) })
			})
		})
	}
}

func rawTransition(bk *bbolt.Bucket, writer, n uint64) error {
	keys := transitionKeys(writer, n)
	if err := bk.Delete(keys[0]); err != nil {
		return err
	}
	for _, k := range keys[1:] {
		if err := bk.Put(k, record); err != nil {
			return err
		}
	}
	return nil
}

// run starts the given number of goroutines. Together they call update b.N times.
func run(b *testing.B, writers int, update func(writer, n uint64) error) {
	b.Helper()
	var left atomic.Int64
	left.Store(int64(b.N))
	done := make(chan error, writers)
	b.ResetTimer()
	for w := range writers {
		go func() {
			for n := uint64(1); left.Add(-1) >= 0; n++ {
				if err := update(uint64(w), n); err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
	}
	for range writers {
		if err := <-done; err != nil {
			b.Error(err)
		}
	}
}

// BenchmarkRange measures the cost of reading one record in a long range.
func BenchmarkRange(b *testing.B) {
	db := benched(b)
	const records = 10_000
	if err := db.Update(func(tx *Tx) error {
		for n := range uint64(records) {
			tx.Put(At(Metrics).Uint(n), record)
		}
		return nil
	}); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.ResetTimer()
	for n := 0; n < b.N; {
		if err := db.View(func(tx *Tx) error {
			for range tx.Range(At(Metrics)) {
				if n++; n >= b.N {
					break
				}
			}
			return nil
		}); err != nil {
			b.Fatal(err)
		}
	}
}
