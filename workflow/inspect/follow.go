package inspect

import (
	"fmt"
	"slices"

	"addon-operator/store"
)

// A Change is a committed line of history, or the committed start or end of a run. Exactly one of
// the fields is set.
type Change struct {
	Record       *store.Record
	Began, Ended *store.Run
}

// A Follower makes entries of a timeline, or of logs, from changes. Only one goroutine may use a
// Follower.
type Follower struct {
	reader timelineReader
	logs   bool
	sent   map[string]bool // identities of the first entries, which were read from the store
	runs   map[uint64]int  // number of shown attempts, by run; a run is added when its start or an attempt is shown
	action store.ID        // the last action of a person that was read
}

// FollowTimeline returns the newest entries that req selects, and a follower for later entries. The caller must pass to
// [Follower.Entries] all changes that are committed after the commit that tx reads, except those that the function of
// [Follower.Wants] rejects. To miss no change, the caller must begin to collect changes before tx begins.
func FollowTimeline(tx *store.Tx, req TimelineRequest) (*Follower, []Entry, error) {
	f := &Follower{reader: timelineReader{req: req}, sent: map[string]bool{}, runs: map[uint64]int{}}
	t, err := ReadTimeline(tx, req)
	if err != nil {
		return nil, nil, err
	}
	for i := range t.Entries {
		switch e := &t.Entries[i]; {
		case e.What == RunBegan:
			f.runs[e.Run] += 0
		case e.isAttempt():
			f.runs[e.Run]++
		}
	}
	f.begin(t.Entries)
	_, f.action, err = store.ActionsAfter(tx, store.ID{})
	return f, t.Entries, err
}

// FollowLogs is like [FollowTimeline], but for the output of attempts.
func FollowLogs(tx *store.Tx, req LogsRequest) (*Follower, []Entry, error) {
	f := &Follower{reader: timelineReader{req: req.TimelineRequest, wanted: req.wanted}, logs: true, sent: map[string]bool{}}
	t, err := ReadLogs(tx, req)
	f.begin(t.Entries)
	return f, t.Entries, err
}

func (f *Follower) begin(entries []Entry) {
	for i := range entries {
		f.sent[entries[i].identity()] = true
	}
}

// isAttempt reports whether e is about an attempt.
func (e *Entry) isAttempt() bool { return e.What != Command && !e.Task.IsZero() }

// identity returns a text that is different for each entry.
func (e *Entry) identity() string {
	return fmt.Sprint(e.What, e.Run, e.Task, e.Node, e.Subject, e.Try, e.At.UnixNano())
}

// Entries returns the entries for changes, without those that [FollowTimeline] or [FollowLogs] has
// returned. For a timeline, the entries include the commands that people have used since the last call.
func (f *Follower) Entries(tx *store.Tx, changes []Change) (entries []Entry, err error) {
	if !f.logs {
		if entries, err = f.commands(tx); err != nil {
			return nil, err
		}
	}
	for i := range changes {
		switch n := &changes[i]; {
		case n.Record != nil:
			entries, err = f.attempt(tx, n.Record, entries)
		case f.logs:
		case n.Began != nil && f.about(n.Began):
			entries = f.runBegan(n.Began, entries)
		case n.Ended != nil:
			entries = f.runEnded(n.Ended, entries)
		}
		if err != nil {
			return nil, err
		}
	}
	return slices.DeleteFunc(entries, func(e Entry) bool { return f.sent[e.identity()] }), nil
}

// Wants returns a function that reports whether a change can produce an entry. The caller must call
// the function for all changes since the creation of f, in their order. The function does not use f, so a goroutine
// that does not use f may call the function.
func (f *Follower) Wants() func(Change) bool {
	own := Follower{reader: f.reader, logs: f.logs}
	runs := map[uint64]bool{} // runs that are shown and have not ended
	for run := range f.runs {
		runs[run] = true
	}
	return func(c Change) (wanted bool) {
		switch {
		case c.Record != nil:
			if wanted = own.reader.requested(c.Record); wanted && !own.logs {
				runs[c.Record.Run] = true
			}
		case own.logs:
		case c.Began != nil:
			if wanted = own.about(c.Began); wanted {
				runs[c.Began.ID] = true
			}
		case c.Ended != nil:
			wanted = runs[c.Ended.ID]
			delete(runs, c.Ended.ID)
		}
		return wanted
	}
}

// about reports whether the request selects the start of the run, and not only some of its attempts.
func (f *Follower) about(w *store.Run) bool {
	return f.reader.req.Subject == "" || f.reader.isRun(w.ID) || f.reader.isSubject(w.Subject)
}

// attempt appends the entry of an attempt, if the request selects the attempt and the entry is not among the first
// entries. In a timeline, if nothing of the attempt's run was shown yet, the entry of the run's start is put before the
// entry of the attempt.
func (f *Follower) attempt(tx *store.Tx, a *store.Record, entries []Entry) ([]Entry, error) {
	if !f.reader.requested(a) {
		return entries, nil
	}
	l := line{Record: *a}
	entry := attemptEntry(&l, position{})
	if f.sent[entry.identity()] {
		return entries, nil
	}
	if f.logs {
		entry.Output = a.Output
		return append(entries, entry), nil
	}
	if _, shown := f.runs[a.Run]; !shown {
		w, ok, err := load[store.Run](&unreadable{tx: tx}, store.RunKey(a.Run))
		if err != nil {
			return nil, err
		}
		if ok {
			entries = f.runBegan(&w, entries)
		}
	}
	f.runs[a.Run]++
	return append(entries, entry), nil
}

func (f *Follower) runBegan(w *store.Run, entries []Entry) []Entry {
	if _, shown := f.runs[w.ID]; shown {
		return entries
	}
	f.runs[w.ID] = 0
	return append(entries, began(w))
}

func (f *Follower) runEnded(w *store.Run, entries []Entry) []Entry {
	if f.runs[w.ID] > 1 {
		entries = append(entries, ended(w))
	}
	delete(f.runs, w.ID)
	return entries
}

// commands returns the selected commands that people have used since the last call.
func (f *Follower) commands(tx *store.Tx) (entries []Entry, err error) {
	actions, last, err := store.ActionsAfter(tx, f.action)
	if err != nil {
		return nil, err
	}
	f.action = last
	for i := range actions {
		if a := &actions[i]; f.reader.req.Subject == "" || f.reader.actionConcerns(a) {
			entries = append(entries, commandEntry(a))
		}
	}
	return entries, nil
}
