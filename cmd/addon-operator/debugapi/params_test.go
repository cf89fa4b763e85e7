package debugapi

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"addon-operator/cmd/addon-operator/settings"
)

// The tests of this file change the log level of the process, so they do not run in parallel.

// valuesOf returns the values of the parameters by name.
func valuesOf(p *Params) map[string]string {
	values := map[string]string{}
	for _, line := range p.List() {
		values[line.Name] = line.Value
	}
	return values
}

func newParams(t *testing.T, shown *bool) *Params {
	t.Helper()
	level := zerolog.GlobalLevel()
	t.Cleanup(func() { zerolog.SetGlobalLevel(level) })
	p, err := NewParams(settings.Settings{LogLevel: "Warning"}, zerolog.Nop(), func(show bool) { *shown = show })
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestAParameterIsSetUntilTheProcessEnds(t *testing.T) {
	shown := false
	p := newParams(t, &shown)
	if diff := cmp.Diff(map[string]string{LogLevel: "warn", LogConfigEvents: "false"}, valuesOf(p)); diff != "" {
		t.Errorf("initial values (-want +got):\n%s", diff)
	}
	said, err := p.Set(LogConfigEvents, "true", 0)
	if want := "log.configmap.events is true until the operator ends"; err != nil || said != want || !shown {
		t.Errorf("%q, error %v, shown %t; want %q", said, err, shown, want)
	}
	if said, err = p.Set(LogLevel, "error", 0); err != nil || zerolog.GlobalLevel() != zerolog.ErrorLevel {
		t.Errorf("%q, error %v, level %s", said, err, zerolog.GlobalLevel())
	}
	for _, line := range p.List() {
		if line.Until != nil {
			t.Errorf("%s ends at %s", line.Name, line.Until)
		}
	}
}

func TestTheLevelDebugEndsByItself(t *testing.T) {
	shown := false
	p := newParams(t, &shown)
	synctest.Test(t, func(t *testing.T) {
		said, err := p.Set(LogLevel, "debug", 0)
		if want := "log.level is debug for 30m0s"; err != nil || said != want {
			t.Errorf("%q, error %v; want %q", said, err, want)
		}
		if until := p.List()[0].Until; until == nil || time.Until(*until) != 30*time.Minute {
			t.Errorf("the change ends at %v", until)
		}
		time.Sleep(30*time.Minute - time.Second)
		synctest.Wait()
		if zerolog.GlobalLevel() != zerolog.DebugLevel {
			t.Errorf("level %s before the end", zerolog.GlobalLevel())
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if zerolog.GlobalLevel() != zerolog.WarnLevel || p.List()[0].Value != "warn" || p.List()[0].Until != nil {
			t.Errorf("level %s, parameter %+v after the end", zerolog.GlobalLevel(), p.List()[0])
		}
	})
}

func TestAParameterThatIsSetAgainKeepsItsNewValue(t *testing.T) {
	shown := false
	p := newParams(t, &shown)
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			value string
			lasts time.Duration
		}{{"debug", time.Minute}, {"info", 0}} {
			if _, err := p.Set(LogLevel, c.value, c.lasts); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if got := p.List()[0].Value; got != "info" {
			t.Errorf("value %q", got)
		}
	})
}

func TestAWrongParameterChangesNothing(t *testing.T) {
	shown := false
	p := newParams(t, &shown)
	for _, c := range []struct{ name, value, want string }{
		{"log.levle", "info", `nothing is called "log.levle"; see addon-operator config list`},
		{LogLevel, "loud", `log.level is "loud"; it can be debug, info, warn or error`},
		{LogConfigEvents, "perhaps", `log.configmap.events is "perhaps"; it can be true or false`},
	} {
		if _, err := p.Set(c.name, c.value, 0); err == nil || err.Error() != c.want {
			t.Errorf("error %v, want %q", err, c.want)
		}
	}
	if diff := cmp.Diff(map[string]string{LogLevel: "warn", LogConfigEvents: "false"}, valuesOf(p)); diff != "" {
		t.Errorf("values (-want +got):\n%s", diff)
	}
}

func TestLevelsOfAddonOperatorAreUnderstood(t *testing.T) {
	t.Parallel()
	for word, want := range map[string]string{"Trace": "debug", "warning": "warn", "CRITICAL": "error", "none": "error", "fatal": "error", "Info": "info"} {
		if got := LevelOf(word); got != want {
			t.Errorf("%s: %s, want %s", word, got, want)
		}
	}
}
