package inspect

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"addon-operator/store"
)

// Limits for reading the history of a run, so that a long history does not delay the output. The
// newest mostRead lines are read. Older lines are only counted, up to mostSkimmed.
const (
	mostRead    = 2_000
	mostSkimmed = 20_000
)

// A line is a record of history, with the epoch in which it was written.
type line struct {
	store.Record
	epoch uint64
}

// history returns the newest lines of the history of run, oldest first. The result unread is the number of lines that
// are too old to be returned or were deleted, up to mostSkimmed.
func (s *scan) history(run uint64) (lines []line, unread int, err error) {
	for k, v := range s.tx.Backwards(store.At(store.History).Uint(run)) {
		read := len(lines) < mostRead
		if !read {
			if unread++; unread >= mostSkimmed {
				break
			}
			if !bytes.Contains(v, []byte(`"omitted":`)) {
				continue
			}
		}
		l, err := readLine(k, v)
		if err != nil {
			if err := s.unreadable.pass(err); err != nil {
				return nil, 0, err
			}
			continue
		}
		unread += l.Omitted
		if read {
			lines = append(lines, l)
		}
	}
	slices.Reverse(lines)
	return lines, min(unread, mostSkimmed), nil
}

// readLine decodes the line with the key k and the value v.
func readLine(k store.Key, v []byte) (l line, err error) {
	parts, err := k.Parts()
	if err != nil {
		return l, err
	}
	parts.Uint() // the run
	l.epoch = parts.Uint()
	if err := errors.Join(parts.Err(), decode(v, &l.Record)); err != nil {
		return l, &store.RecordError{Key: slices.Clone(k), Err: err}
	}
	return l, nil
}

// loadLine reads the line with the key k. The line must exist.
func loadLine(tx *store.Tx, k store.Key) (line, error) { return readLine(k, tx.Get(k)) }

// decode decodes a record from JSON.
func decode[T any](text []byte, into *T) error { return json.Unmarshal(text, into) }

// restarts returns the epochs in which the run was processed, or nil if there was only one.
func restarts(w *store.Run, lines []line, s *scan) (*Restarts, error) {
	r := Restarts{}
	for _, l := range lines {
		r.processed(l.Task.Epoch)
		r.processed(l.epoch)
		if l.Again {
			r.Again++
		}
	}
	for _, at := range s.mine {
		r.processed(at.ID.Epoch)
		if at.Claim != nil && at.Claim.Again {
			r.Again++
		}
	}
	if w.Open > 0 {
		r.processed(s.epoch)
	}
	if r.First == r.Last {
		return nil, nil
	}
	r.Count = int(r.Last - r.First) //nolint:gosec // epochs are counted from 1
	var err error
	r.Resumed, err = s.resumed(r.Last, lines)
	return &r, err
}

// processed records that the run was processed in epoch. processed ignores epoch 0.
func (r *Restarts) processed(epoch uint64) {
	if epoch == 0 {
		return
	}
	if r.First == 0 || epoch < r.First {
		r.First = epoch
	}
	r.Last = max(r.Last, epoch)
}

// resumed returns the start of the run's first attempt in epoch, which must be the last epoch of the run. The attempt
// is running, or it has ended and is in lines. The result is zero if no attempt has started in this epoch.
func (s *scan) resumed(epoch uint64, lines []line) (first time.Time, _ error) {
	start, _, err := store.LoadStart(s.tx, epoch)
	if err != nil {
		return first, err
	}
	// The line of a task that ended without an attempt in this epoch can have the time of an attempt in an earlier
	// epoch.
	began := func(at time.Time) {
		if !at.IsZero() && !at.Before(start.Began) && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	for _, l := range lines {
		if l.epoch == epoch {
			began(l.Began)
		}
	}
	for _, at := range s.mine {
		if at.Claim != nil && at.Claim.Epoch == epoch {
			began(at.Claim.Since)
		}
	}
	return first, nil
}
