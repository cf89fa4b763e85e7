package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/rs/zerolog"

	"addon-operator/store"
	"addon-operator/workflow/graph"
)

// newLog returns the log that s asks for.
func newLog(s Settings, w io.Writer) (zerolog.Logger, error) {
	level, err := zerolog.ParseLevel(strings.ToLower(s.LogLevel))
	if err != nil {
		return zerolog.Logger{}, &codedError{exitUsage, fmt.Errorf("--log-level is %q; it can be debug, info, warn or error", s.LogLevel)}
	}
	switch s.LogType {
	case "json":
	case "text", "color":
		w = zerolog.ConsoleWriter{Out: w, NoColor: s.LogType == "text", TimeFormat: "2006-01-02T15:04:05.000Z07:00", PartsExclude: hidden(s.LogNoTime)}
	default:
		return zerolog.Logger{}, &codedError{exitUsage, fmt.Errorf("--log-type is %q; it can be text, json or color", s.LogType)}
	}
	zerolog.TimeFieldFormat = "2006-01-02T15:04:05.000Z07:00"
	c := zerolog.New(zerolog.SyncWriter(w)).Level(level).With()
	if !s.LogNoTime {
		c = c.Timestamp()
	}
	return c.Logger(), nil
}

func hidden(noTime bool) []string {
	if noTime {
		return []string{zerolog.TimestampFieldName}
	}
	return nil
}

// logRecord writes one line for a line of history.
func logRecord(log zerolog.Logger, r store.Record) {
	e := log.Info()
	if r.State == store.Failed || r.State == store.Allowed {
		e = log.Error().Str("error", r.Error)
	}
	e = e.Str("node", r.Node).Uint64("walk", r.Walk).Str("task", r.Task.String()).Str("queue", r.Queue)
	if subject := graph.Subject(r.Subject).String(); subject != "" {
		e = e.Str("subject", subject)
	}
	if !r.Began.IsZero() {
		e = e.Dur("took", r.Ended.Sub(r.Began))
	}
	if r.Try > 1 {
		e = e.Int("try", r.Try)
	}
	if r.Again {
		e = e.Bool("again", true)
	}
	if r.Detail != "" {
		e = e.Str("detail", r.Detail)
	}
	e.Msg(string(r.State))
}
