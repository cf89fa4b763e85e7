// Package oncelog logs each message only once in an epoch. It is for messages about a lasting state that each
// converge reports again.
package oncelog

import (
	"sync"

	"github.com/rs/zerolog"
)

// New returns a logger that writes to log.
func New(log zerolog.Logger) *Logger { return &Logger{Logger: log} }

// A Logger is the log of all steps. It remembers the messages that were logged with [Logger.Once].
type Logger struct {
	zerolog.Logger

	mu     sync.Mutex
	logged map[string]bool // the messages that were logged; guarded by mu
}

// Once logs message. If the same message has already been logged with Once in this epoch, it does nothing.
func (l *Logger) Once(level zerolog.Level, message string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.logged[message] {
		return
	}
	if l.logged == nil {
		l.logged = map[string]bool{}
	}
	l.logged[message] = true
	l.WithLevel(level).Msg(message)
}
