package debugapi

import (
	"encoding/json"
	"fmt"
	"net/http"

	"addon-operator/store"
	"addon-operator/workflow/inspect"
)

// followTimeline streams the timeline that r requests: the newest entries, and then each new entry.
func (pages runPages) followTimeline(w http.ResponseWriter, r *http.Request) {
	req, err := timelineRequest(r, ShownEntries)
	if err != nil {
		Fail(w, err)
		return
	}
	pages.stream(w, r, func([]inspect.Entry) {}, func(tx *store.Tx) (*inspect.Follower, []inspect.Entry, error) {
		return inspect.FollowTimeline(tx, req)
	})
}

// followLogs streams the output of attempts: of the newest attempts first, and then of each attempt when
// it ends.
func (pages runPages) followLogs(w http.ResponseWriter, r *http.Request) {
	req, err := logsRequest(r)
	if err != nil {
		Fail(w, err)
		return
	}
	pages.stream(w, r, func(entries []inspect.Entry) { redactOutput(r, entries) }, func(tx *store.Tx) (*inspect.Follower, []inspect.Entry, error) {
		return inspect.FollowLogs(tx, req)
	})
}

// stream calls first(), and writes the entries that first() returns. Afterwards, stream writes the new entries of each
// commit, until the client disconnects. Each entry is a JSON object on one line. If no operator runs, stream ends after
// the entries of first(). stream passes entries to the function prepare before it writes them.
func (pages runPages) stream(w http.ResponseWriter, r *http.Request,
	prepare func([]inspect.Entry), first func(*store.Tx) (*inspect.Follower, []inspect.Entry, error),
) {
	at, stop := pages.changes.watch(true)
	defer stop()
	var follower *inspect.Follower
	var entries []inspect.Entry
	err := pages.db.View(func(tx *store.Tx) (err error) {
		follower, entries, err = first(tx)
		return err
	})
	if err != nil {
		Fail(w, err)
		return
	}
	pages.changes.narrow(at, follower.Wants())
	w.Header().Set("Content-Type", "application/x-ndjson")
	out, flush := json.NewEncoder(w), http.NewResponseController(w)
	for {
		prepare(entries)
		for i := range entries {
			if err := out.Encode(&entries[i]); err != nil {
				return
			}
		}
		if flush.Flush() != nil || pages.engine == nil {
			return
		}
		select {
		case <-at.wake:
		case <-r.Context().Done():
			return
		}
		if entries, err = pages.newEntries(at, follower); err != nil {
			entries = append(entries, inspect.Entry{At: pages.db.Now(), What: inspect.Omitted, Text: err.Error()})
		}
	}
}

// newEntries returns the entries for the changes that a watcher has collected. If changes were lost, the last entry has
// their number.
func (pages runPages) newEntries(at *watcher, follower *inspect.Follower) (entries []inspect.Entry, err error) {
	changes, lost := pages.changes.drain(at)
	err = pages.db.View(func(tx *store.Tx) (err error) {
		if entries, err = follower.Entries(tx, changes); err != nil || lost == 0 {
			return err
		}
		text := fmt.Sprintf("%d entries, because they arrived faster than they were read; see them without --follow", lost)
		entries = append(entries, inspect.Entry{At: tx.Now(), What: inspect.Omitted, Text: text})
		return nil
	})
	return entries, err
}
