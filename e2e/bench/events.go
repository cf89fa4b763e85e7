package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"addon-operator/e2e/operator"
)

const (
	sequentialEvents = 50                     // sequential events
	eventInterval    = 100 * time.Millisecond // pause between two sequential events
	burst            = 500                    // events of each burst
	hands            = 8                      // concurrent clients that create objects
)

// events creates objects that the modules' hooks watch. It measures the time from the request that creates an object
// until the hook for it starts.
func (w *environment) events(ctx context.Context, p *operator.Process, namespace, record string) ([]figure, error) {
	w.progress.Printf("%d events, one each %s", sequentialEvents, eventInterval)
	made := map[string]time.Time{}
	for i := range sequentialEvents {
		name := fmt.Sprintf("event-%03d", i)
		made[name] = time.Now()
		if err := w.make(ctx, namespace, name, i); err != nil {
			return nil, err
		}
		time.Sleep(eventInterval)
	}
	delays, err := w.delays(ctx, p, record, made)
	if err != nil {
		return nil, err
	}

	w.progress.Printf("%d events at once", burst)
	times := make([]time.Time, burst)
	began := time.Now()
	group, grouped := errgroup.WithContext(ctx)
	group.SetLimit(hands)
	for i := range burst {
		group.Go(func() error {
			times[i] = time.Now()
			return w.make(grouped, namespace, fmt.Sprintf("burst-%03d", i), i)
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	making := time.Since(began)
	made = map[string]time.Time{}
	for i, at := range times {
		made[fmt.Sprintf("burst-%03d", i)] = at
	}
	burstDelays, err := w.delays(ctx, p, record, made)
	if err != nil {
		return nil, err
	}
	w.progress.Printf("%d events, one after another", burst)
	row, rowDelays, err := w.row(ctx, p, namespace, record)
	if err != nil {
		return nil, err
	}
	note := fmt.Sprintf("from the request that creates the object; %d sequential events", sequentialEvents)
	all := fmt.Sprintf("%d at once, made within %.1f s", burst, making.Seconds())
	return []figure{
		{Name: "event to hook start, p50", Unit: "ms", Measured: percentile(delays, 50), AtMost: 20, Note: note},
		{Name: "event to hook start, p99", Unit: "ms", Measured: percentile(delays, 99), AtMost: 60, Note: note},
		{Name: "burst, event to hook start, p50", Unit: "ms", Measured: percentile(burstDelays, 50), Note: all},
		{Name: "burst, event to hook start, p99", Unit: "ms", Measured: percentile(burstDelays, 99), Note: all},
		{Name: "burst for one hook, event to hook start, p50", Unit: "ms", Measured: percentile(rowDelays, 50), AtMost: 25, Note: row},
		{Name: "burst for one hook, event to hook start, p90", Unit: "ms", Measured: percentile(rowDelays, 90), AtMost: 45, Note: row},
		{Name: "burst for one hook, event to hook start, max", Unit: "ms", Measured: percentile(rowDelays, 100), AtMost: 80, Note: row},
	}, nil
}

// row creates objects that the hook of one module watches. It creates them one after another, as fast as the API server
// accepts them. It returns the delays from the request that creates an object to the start of the hook, in
// milliseconds, and a note about the number of objects.
func (w *environment) row(ctx context.Context, p *operator.Process, namespace, record string) (note string, delays []float64, err error) {
	made := map[string]time.Time{}
	began := time.Now()
	for i := range burst {
		name := fmt.Sprintf("row-%03d", i)
		made[name] = time.Now()
		if err := w.make(ctx, namespace, name, 0); err != nil {
			return "", nil, err
		}
	}
	making := time.Since(began)
	delays, err = w.delays(ctx, p, record, made)
	return fmt.Sprintf("%d one after another, made within %.1f s", burst, making.Seconds()), delays, err
}

// make creates an object that the hook of one module watches. i selects the module.
func (w *environment) make(ctx context.Context, namespace, name string, i int) error {
	return w.makeFor(ctx, namespace, name, moduleName(i%modules))
}

// makeFor creates an object whose label "for" has the given value. Each hook watches the objects with one value of this
// label.
func (w *environment) makeFor(ctx context.Context, namespace, name, label string) error {
	_, err := w.client.CoreV1().ConfigMaps(namespace).Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"for": label}},
	}, metav1.CreateOptions{})
	return err
}

// delays returns the delay of each created object in milliseconds, shortest first. It waits until hooks have received
// all of them.
func (w *environment) delays(ctx context.Context, p *operator.Process, record string, made map[string]time.Time) ([]float64, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	delivered := map[string]time.Time{}
	var wrong error
	err := p.Until(ctx, fmt.Sprintf("the delivery of %d events", len(made)), func() bool {
		delivered, wrong = readTold(record)
		n := 0
		for name := range made {
			if !delivered[name].IsZero() {
				n++
			}
		}
		return wrong != nil || n == len(made)
	})
	if err != nil || wrong != nil {
		return nil, fmt.Errorf("hooks' record: %w", firstOf(wrong, err))
	}
	var delays []float64
	for name, at := range made {
		delays = append(delays, float64(delivered[name].Sub(at).Microseconds())/1000)
	}
	slices.Sort(delays)
	return delays, nil
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// synchronized returns an error unless the hooks of the n modules have received n Synchronizations since the given
// time: one for each module.
func synchronized(record string, n int, since time.Time) error {
	delivered, err := readRecord(record)
	if err != nil {
		return err
	}
	ran := 0
	for _, run := range delivered {
		for _, e := range run.elements {
			if e.Type == "Synchronization" && run.at.After(since) {
				ran++
			}
		}
	}
	if ran != n {
		return fmt.Errorf("the operator is ready and Synchronization has run in %d of %d modules", ran, n)
	}
	return nil
}

// readTold returns a map from the name of each delivered object to the start time of the first hook run that received
// the object.
func readTold(record string) (map[string]time.Time, error) {
	runs, err := readRecord(record)
	delivered := map[string]time.Time{}
	for _, run := range runs {
		for _, e := range run.elements {
			if delivered[e.FilterResult].IsZero() {
				delivered[e.FilterResult] = run.at
			}
		}
	}
	return delivered, err
}

// A hookRun is one line of the file to which the hooks write: the start time of a hook run and its binding context.
type hookRun struct {
	at       time.Time
	elements []struct {
		Type         string `json:"type"`
		FilterResult string `json:"filterResult"`
	}
}

func readRecord(record string) ([]hookRun, error) {
	content, err := os.ReadFile(record)
	if err != nil {
		return nil, err
	}
	var runs []hookRun
	for line := range bytes.Lines(content) {
		at, text, found := bytes.Cut(bytes.TrimSuffix(line, []byte("\n")), []byte(" "))
		if !found || !bytes.HasSuffix(line, []byte("\n")) {
			continue // the hook has not finished the line yet
		}
		var run hookRun
		var seconds, micros int64
		if _, err := fmt.Sscanf(string(at), "%d.%d", &seconds, &micros); err != nil {
			return nil, fmt.Errorf("line %q: %w", line, err)
		}
		run.at = time.Unix(seconds, micros*1000)
		if err := json.Unmarshal(text, &run.elements); err != nil {
			return nil, fmt.Errorf("line %q: %w", line, err)
		}
		runs = append(runs, run)
	}
	return runs, nil
}

// median returns the median of values.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return percentile(sorted, 50)
}

// percentile returns the p-th percentile of the sorted values.
func percentile(sorted []float64, p int) float64 {
	return sorted[max(0, (len(sorted)*p+99)/100-1)]
}
