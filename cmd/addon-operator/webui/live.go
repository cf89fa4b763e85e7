package webui

import (
	"fmt"
	"net/http"
	"time"
)

// eventRest is the minimum time between two server-sent events. eventRest limits the load that an open view causes
// during many commits.
const eventRest = 100 * time.Millisecond

// events writes a server-sent event at once and after commits of the store, until the browser disconnects. One event
// can be for several commits. The data of an event is [Options.Process].
func (p *pages) events(w http.ResponseWriter, r *http.Request) {
	if err := may(r, viewRight(statusResource)); err != nil {
		p.fail(w, r, err)
		return
	}
	wake, stop := p.Commits()
	defer stop()
	w.Header().Set("Content-Type", "text/event-stream")
	out := http.NewResponseController(w)
	for {
		if _, err := fmt.Fprintf(w, "event: commit\ndata: %s\n\n", p.Process); err != nil || out.Flush() != nil {
			return
		}
		select {
		case <-time.After(eventRest):
		case <-r.Context().Done():
			return
		}
		select {
		case <-wake:
		case <-r.Context().Done():
			return
		}
	}
}
