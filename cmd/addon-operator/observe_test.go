package main

import (
	"bytes"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rs/zerolog"

	"addon-operator/cmd/addon-operator/settings"
	"addon-operator/internal/metrics"
)

func TestInvalidConfigMapIsReportedOnceForEachContent(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	o := &lifecycleObserver{
		log: zerolog.New(&log), notices: newNotices(nil, &settings.Settings{}, zerolog.Nop()), converged: new(atomic.Bool),
		metrics: metrics.New("p_", func() (metrics.State, error) { return metrics.State{}, nil }),
	}
	o.ConfigRefused("1", "a is not a number")
	o.ConfigRefused("1", "a is not a number")
	if got := strings.Count(log.String(), "a is not a number"); got != 1 {
		t.Errorf("content refused twice is logged %d times, want once:\n%s", got, &log)
	}
	o.ConfigRefused("2", "a is not a number")
	if got := strings.Count(log.String(), "a is not a number"); got != 2 {
		t.Errorf("two refused contents are logged %d times, want twice:\n%s", got, &log)
	}
}

func TestMetricsAreLabeledAsStartupUntilTheFirstConvergeEnds(t *testing.T) {
	t.Parallel()
	converged := new(atomic.Bool)
	o := &lifecycleObserver{converged: converged}
	if got := o.activation(); got != "OperatorStartup" {
		t.Errorf("before the first converge ends: activation %q, want OperatorStartup", got)
	}
	converged.Store(true)
	if got := o.activation(); got != "" {
		t.Errorf("after the first converge: activation %q, want none", got)
	}
}
