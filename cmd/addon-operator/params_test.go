package main

import (
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"addon-operator/cmd/addon-operator/debugapi"
	"addon-operator/cmd/addon-operator/settings"
)

func TestLevelsOfEarlierOperatorsAreTheNearestThereAre(t *testing.T) {
	before := zerolog.GlobalLevel()
	t.Cleanup(func() { zerolog.SetGlobalLevel(before) })
	for word, want := range map[string]zerolog.Level{
		"DEBUG": zerolog.DebugLevel, "Trace": zerolog.DebugLevel, "info": zerolog.InfoLevel, "WARN": zerolog.WarnLevel,
		"warning": zerolog.WarnLevel, "ERROR": zerolog.ErrorLevel, "CRITICAL": zerolog.ErrorLevel, "NONE": zerolog.ErrorLevel, "fatal": zerolog.ErrorLevel,
	} {
		t.Setenv("RLOG_LOG_LEVEL", word)
		s := readSettings(t)
		if _, err := newLog(s, io.Discard); err != nil || zerolog.GlobalLevel() != want {
			t.Errorf("%s is %v, %v, want %v", word, zerolog.GlobalLevel(), err, want)
		}
		if p, err := debugapi.NewParams(s, zerolog.Nop(), func(bool) {}); err != nil || p.List()[0].Value != want.String() {
			t.Errorf("%s is shown as %+v, %v", word, p, err)
		}
	}
	t.Setenv("RLOG_LOG_LEVEL", "loud")
	if _, err := newLog(readSettings(t), io.Discard); exitCode(err) != exitUsage {
		t.Errorf("an unknown log level: error %v, want a usage error", err)
	}
}

func TestAParameterSetForAWhileIsPutBack(t *testing.T) {
	before := zerolog.GlobalLevel()
	t.Cleanup(func() { zerolog.SetGlobalLevel(before) })
	synctest.Test(t, func(t *testing.T) {
		shown := false
		p, err := debugapi.NewParams(settings.Settings{LogLevel: "INFO"}, zerolog.Nop(), func(show bool) { shown = show })
		if err != nil {
			t.Fatal(err)
		}
		set := func(name, value string, lasts time.Duration) {
			if _, err := p.Set(name, value, lasts); err != nil {
				t.Fatal(err)
			}
		}
		state := func() []string {
			synctest.Wait()
			var values []string
			for _, line := range p.List() {
				values = append(values, line.Value)
			}
			return append(values, zerolog.GlobalLevel().String())
		}
		check := func(when string, want ...string) {
			t.Helper()
			if d := cmp.Diff(want, state()); d != "" {
				t.Errorf("%s (-want +got):\n%s", when, d)
			}
		}
		check("at the start", "info", "false", "info")
		set(debugapi.LogLevel, "debug", 0)
		set(debugapi.LogConfigEvents, "true", time.Minute)
		check("set", "debug", "true", "debug")
		time.Sleep(2 * time.Minute)
		check("after two minutes", "debug", "false", "debug")
		if shown {
			t.Error("changes of the ConfigMap are still shown")
		}
		set(debugapi.LogLevel, "error", 40*time.Minute)
		time.Sleep(30 * time.Minute)
		check("when debug would have ended", "error", "false", "error")
		time.Sleep(10 * time.Minute)
		check("when error has ended", "info", "false", "info")
	})
}
