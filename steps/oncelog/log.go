// Package oncelog writes each message about a lasting state to the log only once in an epoch, although each converge
// reports the state again.
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
	logged map[string]bool // by message; guarded by mu
}

// Once logs message, unless it has already logged the same message in this epoch.
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
