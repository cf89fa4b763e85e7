package hook

import (
	"testing"
	"time"
)

func TestARunHasTheLongestTimeoutOfItsBindings(t *testing.T) {
	t.Parallel()
	const short, long = time.Minute, time.Hour
	for _, c := range []struct {
		name           string
		timeouts       []time.Duration
		standard, want time.Duration
	}{
		{"one binding", []time.Duration{short}, 0, short},
		{"several bindings", []time.Duration{short, long}, 0, long},
		{"no timeouts", nil, short, short},
		{"no timeouts and no default", nil, 0, 0},
		{"a binding without a timeout, and no default", []time.Duration{short, 0}, 0, 0},
		{"a binding without a timeout, and a longer default", []time.Duration{0, short}, long, long},
		{"a binding without a timeout, and a shorter default", []time.Duration{long, 0}, short, long},
	} {
		if got := (&Runner{timeout: c.standard}).longest(c.timeouts); got != c.want {
			t.Errorf("%s: the timeout is %s, want %s", c.name, got, c.want)
		}
	}
}
