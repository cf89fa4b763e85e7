package debugapi

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"addon-operator/e2e/cputime"
	"addon-operator/store"
	"addon-operator/workflow"
)

// BenchmarkFollowers measures the CPU time that the process needs for 1,000 commits, with and without a follower. There
// is a pause of 1 ms after each commit. Each commit ends an attempt of module web. The follower of the timeline shows
// another module.
func BenchmarkFollowers(b *testing.B) {
	for name, path := range map[string]string{
		"none": "", "timeline": "/workflow/timeline/follow?subject=other", "logs": "/workflow/logs/follow",
	} {
		b.Run(name, func(b *testing.B) {
			l := watched(b, make(gated))
			if path != "" {
				followRoute(b, l, path)
			}
			observer := l.Changes.Observe(workflow.Observer{})
			record := store.Record{Run: 1, Node: "n", Queue: "q", State: store.Done, Ended: time.Now()}
			record.Subject.Module = "web"
			before := cputime.Used()
			for b.Loop() {
				for range 1000 {
					if err := l.DB.Update(func(tx *store.Tx) error {
						tx.OnCommit(func() { observer.Recorded(record) })
						return store.Save(tx, store.ReleaseKey("web"), store.Release{Revision: 1})
					}); err != nil {
						b.Fatal(err)
					}
					time.Sleep(time.Millisecond) // so that each commit wakes the follower separately
				}
			}
			b.ReportMetric(float64(cputime.Used()-before)/float64(time.Millisecond)/float64(b.N), "cpu-ms/1000-commits")
		})
	}
}

// followRoute reads a stream until the benchmark ends.
func followRoute(b *testing.B, api *API, path string) {
	b.Helper()
	server := httptest.NewServer(api.Routes())
	ctx, cancel := context.WithCancel(b.Context())
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+path, http.NoBody)
	if err != nil {
		b.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(request) //nolint:bodyclose // the body is closed at the end of the benchmark
	if err != nil {
		b.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, answer.Body) }() // ends when cancel is called
	b.Cleanup(func() {
		cancel()
		_ = answer.Body.Close() // an error after reading does not matter
		server.Close()
	})
}
