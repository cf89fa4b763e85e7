package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"addon-operator/e2e/operator"
)

const (
	requests = 500 // one after the other
	paired   = 200 // by two hands at once
	warmUp   = 20  // not counted
)

// admissionHook allows everything, and writes down how long it ran by its own
// clock.
const admissionHook = `#!/bin/bash
began=$EPOCHREALTIME
if [[ $1 == --config ]]; then
  echo '{"configVersion":"v1","kubernetesValidating":[{"name":"bench.policy.example.com","timeoutSeconds":10,"labelSelector":{"matchLabels":{"asked":"yes"}},"namespace":{"labelSelector":{"matchLabels":{"kubernetes.io/metadata.name":"%s"}}},"rules":[{"apiGroups":[""],"apiVersions":["v1"],"resources":["configmaps"],"operations":["CREATE"]}]}]}'
  exit
fi
IFS= read -r -d '' context <"$BINDING_CONTEXT_PATH"
[[ $context =~ \"name\":\"(asked-[0-9]+)\" ]]
echo '{"allowed":true}' >"$ADMISSION_RESPONSE_PATH"
echo "${BASH_REMATCH[1]} $began $EPOCHREALTIME" >>"$RECORD"
`

// measureAdmission has the API server ask a hook about objects, and returns what
// that costs beyond the hook's own time: all from the request to its answer, the
// API server's work and the start of the hook's process included.
func measureAdmission(ctx context.Context, _ int, progress *log.Logger) (figures []figure, err error) {
	w, end, err := openWorld(progress)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, end()) }()
	const namespace = "admission"
	site, err := w.bareSite(ctx, namespace)
	if err != nil {
		return nil, err
	}
	record := filepath.Join(site.Dir, "record")
	if err := write(filepath.Join(site.GlobalHooksDir, "admission.sh"), fmt.Sprintf(admissionHook, namespace)); err != nil {
		return nil, err
	}
	p, err := site.Start("RECORD="+record, "ADDON_OPERATOR_WEBHOOK_URL=https://127.0.0.1",
		"ADDON_OPERATOR_VALIDATING_WEBHOOK_LISTEN_PORT=0", "ADDON_OPERATOR_CONVERSION_WEBHOOK_LISTEN_PORT=0")
	if err != nil {
		return nil, err
	}
	defer p.Kill()
	ready, cancel := context.WithTimeout(ctx, convergeWithin)
	defer cancel()
	if err := p.Ready(ready); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, tail(site.Log()))
	}
	if err := w.untilAsked(ready, p, namespace, record); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, tail(site.Log()))
	}
	for _, c := range []struct {
		name     string
		n, hands int
		most     float64
	}{{"admission", requests, 1, 15}, {"admission, two at once", paired, 2, 0}} {
		progress.Printf("%d requests to admit, %d at once", c.n, c.hands)
		over, own, err := w.admit(ctx, namespace, record, c.n, c.hands)
		if err != nil {
			return nil, fmt.Errorf("%w\n%s", err, tail(site.Log()))
		}
		note := fmt.Sprintf("from request to answer, less the %.1f ms (p50) the hook ran by its own clock; %d requests", own, c.n)
		figures = append(figures,
			figure{Name: c.name + ", overhead p50", Unit: "ms", Measured: percentile(over, 50), Note: note},
			figure{Name: c.name + ", overhead p99", Unit: "ms", Measured: percentile(over, 99), AtMost: c.most, Note: note})
	}
	return figures, p.Stop()
}

// untilAsked returns when the API server asks the hook.
func (w *world) untilAsked(ctx context.Context, p *operator.Process, namespace, record string) error {
	var wrong error
	err := p.Until(ctx, "the API server to ask the hook", func() bool {
		if wrong = w.ask(ctx, namespace, 0); wrong != nil {
			return true
		}
		_, err := os.Stat(record)
		return err == nil
	})
	return firstOf(wrong, err)
}

// ask has the API server say whether an object may be made.
func (w *world) ask(ctx context.Context, namespace string, i int) error {
	_, err := w.client.CoreV1().ConfigMaps(namespace).Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("asked-%d", i), Labels: map[string]string{"asked": "yes"}},
	}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	return err
}

// admit asks n times and returns, in order, how many milliseconds each took
// beyond what the hook ran, and how many that was in the middle.
func (w *world) admit(ctx context.Context, namespace, record string, n, hands int) (over []float64, own float64, err error) {
	if err := os.Truncate(record, 0); err != nil {
		return nil, 0, err
	}
	took := map[int]time.Duration{}
	var mu sync.Mutex
	group, grouped := errgroup.WithContext(ctx)
	group.SetLimit(hands)
	for i := range warmUp + n {
		group.Go(func() error {
			began := time.Now()
			err := w.ask(grouped, namespace, i)
			mu.Lock()
			defer mu.Unlock()
			took[i] = time.Since(began)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, 0, err
	}
	text, err := os.ReadFile(record)
	if err != nil {
		return nil, 0, err
	}
	var ran []float64
	for line := range strings.Lines(string(text)) {
		var i int
		var began, ended float64
		if _, err := fmt.Sscanf(line, "asked-%d %f %f", &i, &began, &ended); err != nil {
			return nil, 0, fmt.Errorf("line %q of the hook's record: %w", line, err)
		}
		if i < warmUp {
			continue
		}
		ran = append(ran, 1000*(ended-began))
		over = append(over, float64(took[i].Microseconds())/1000-1000*(ended-began))
	}
	if len(over) != n {
		return nil, 0, fmt.Errorf("the hook was asked %d times, want %d", len(over), n)
	}
	slices.Sort(over)
	slices.Sort(ran)
	return over, percentile(ran, 50), nil
}
