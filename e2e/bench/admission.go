package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"addon-operator/e2e/operator"
)

const (
	requests = 500 // sequential requests
	warmUp   = 20  // requests before the measurement starts
)

// admissionHook is a hook that allows all requests.
const admissionHook = `#!/bin/bash
if [[ $1 == --config ]]; then
  echo '{"configVersion":"v1","kubernetesValidating":[{"name":"bench.policy.example.com","labelSelector":{"matchLabels":{"asked":"yes"}},"namespace":{"labelSelector":{"matchLabels":{"kubernetes.io/metadata.name":"%s"}}},"rules":[{"apiGroups":[""],"apiVersions":["v1"],"resources":["configmaps"],"operations":["CREATE"]}]}]}'
  exit
fi
echo '{"allowed":true}' >"$ADMISSION_RESPONSE_PATH"
`

// measureAdmission sends requests for which the API server calls a validating hook. It measures the time from each
// request to its response, and subtracts the duration of the hook. The result includes the work of the API server.
func measureAdmission(ctx context.Context, _ int, progress *log.Logger) (figures []figure, err error) {
	w, end, err := openEnvironment(progress)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, end()) }()
	const namespace = "admission"
	env, err := w.newBareEnvironment(ctx, namespace)
	if err != nil {
		return nil, err
	}
	if err := write(filepath.Join(env.GlobalHooksDir, "admission.sh"), fmt.Sprintf(admissionHook, namespace)); err != nil {
		return nil, err
	}
	p, err := env.Start("LOG_LEVEL=debug", "ADDON_OPERATOR_WEBHOOK_URL=https://127.0.0.1",
		"ADDON_OPERATOR_VALIDATING_WEBHOOK_LISTEN_PORT=0", "ADDON_OPERATOR_CONVERSION_WEBHOOK_LISTEN_PORT=0")
	if err != nil {
		return nil, err
	}
	defer p.Kill()
	ready, cancel := context.WithTimeout(ctx, convergeWithin)
	defer cancel()
	if err := p.Ready(ready); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, env.EndOfLog())
	}
	var wrong error
	if err := p.Until(ready, "the first call of the hook by the API server", func() bool {
		wrong = w.ask(ctx, namespace)
		return wrong != nil || len(reviews(env.Log())) > 0
	}); err != nil || wrong != nil {
		return nil, fmt.Errorf("%w\n%s", firstOf(wrong, err), env.EndOfLog())
	}
	progress.Printf("%d requests for admission", requests)
	over, ran, err := w.admit(ctx, env, namespace)
	if err != nil {
		return nil, fmt.Errorf("%w\n%s", err, env.EndOfLog())
	}
	slices.Sort(over)
	note := fmt.Sprintf("from request to response, without the run of the hook (p50 %s ms); %d sequential requests", round(median(ran)), requests)
	return []figure{
		{Name: "admission, overhead p50", Unit: "ms", Measured: percentile(over, 50), Note: note},
		{Name: "admission, overhead p99", Unit: "ms", Measured: percentile(over, 99), AtMost: 15, Note: note},
	}, p.Stop()
}

// admit sends the requests one after another. For each request after the warm-up, the result ran has the duration of
// the hook, and the result over has the rest of the time from request to response. All durations are in milliseconds.
func (w *environment) admit(ctx context.Context, env operator.Environment, namespace string) (over, ran []float64, err error) {
	before := len(reviews(env.Log()))
	var took []float64
	for range warmUp + requests {
		began := time.Now()
		if err := w.ask(ctx, namespace); err != nil {
			return nil, nil, err
		}
		took = append(took, float64(time.Since(began).Microseconds())/1000)
	}
	runs := reviews(env.Log())[before:]
	if len(runs) != len(took) {
		return nil, nil, fmt.Errorf("the hook was called %d times, want %d", len(runs), len(took))
	}
	for i := warmUp; i < len(took); i++ {
		over, ran = append(over, took[i]-runs[i]), append(ran, runs[i])
	}
	return over, ran, nil
}

// ask sends a request that creates an object as a dry run. The API server calls the hook for this request.
func (w *environment) ask(ctx context.Context, namespace string) error {
	_, err := w.client.CoreV1().ConfigMaps(namespace).Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "asked", Labels: map[string]string{"asked": "yes"}},
	}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	return err
}

// reviews returns the duration of the hook in milliseconds for each answered admission review, in order. The operator's
// log is in text.
func reviews(text string) []float64 {
	var ran []float64
	for line := range strings.Lines(text) {
		var record struct {
			Message string `json:"msg"`
			Ran     string `json:"ran"`
		}
		if json.Unmarshal([]byte(line), &record) != nil || record.Message != "admission review answered" {
			continue
		}
		if d, err := time.ParseDuration(record.Ran); err == nil {
			ran = append(ran, float64(d.Microseconds())/1000)
		}
	}
	return ran
}
