package triggers

import (
	"context"
	"encoding/json"
	"slices"

	"addon-operator/store"
)

// A Limiter checks the deferred tasks again. [*workflow.Engine] is a Limiter.
type Limiter interface{ RateLimitsChanged() }

// A RateLimits makes the engine check the deferred tasks again when the settings or the configVersion of a
// hook change, because the rate limit of the hook depends on them.
type RateLimits struct {
	db      *store.DB
	engine  Limiter
	changed *store.ChangedKeys
	known   map[string]string // settings of each hook, by the key of its record
}

// NewRateLimits returns a RateLimits for the hooks in db. It checks nothing until Run is called.
func NewRateLimits(db *store.DB, engine Limiter) *RateLimits {
	return &RateLimits{db: db, engine: engine, changed: store.NewChangedKeys(db, store.At(store.Hooks)), known: map[string]string{}}
}

// Run follows the settings of hooks until ctx is done. If several settings change during a check, one
// more check covers all of them.
func (l *RateLimits) Run(ctx context.Context) {
	l.read(l.all())
	// If settings changed before the first read, l.known has the new ones already, so comparing them shows no
	// difference.
	if keys := l.changed.Take(); len(keys) > 0 {
		l.read(keys)
		l.engine.RateLimitsChanged()
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.changed.C():
			if l.read(l.changed.Take()) {
				l.engine.RateLimitsChanged()
			}
		}
	}
}

// all returns the keys of all hooks. If the store fails, which ends the operator, it returns a part of
// them.
func (l *RateLimits) all() (keys []store.Key) {
	_ = l.db.View(func(tx *store.Tx) error {
		for k := range tx.Range(store.At(store.Hooks)) {
			keys = append(keys, slices.Clone(k))
		}
		return nil
	})
	return keys
}

// read reads the settings of the hooks with these keys. It reports whether one of them differs from the
// settings that were read before. Settings that cannot be read differ from all others.
func (l *RateLimits) read(keys []store.Key) (differ bool) {
	err := l.db.View(func(tx *store.Tx) error {
		for _, k := range keys {
			settings, err := settingsOf(tx, k)
			if err != nil || l.known[string(k)] != settings {
				differ = true
			}
			l.known[string(k)] = settings
		}
		return nil
	})
	return differ || err != nil
}

// settingsOf returns the version and the settings in the configuration of a hook; empty if there is no
// hook. The version is a part of the result, because a hook without configVersion processes only one
// event in each run.
func settingsOf(tx *store.Tx, k store.Key) (string, error) {
	h, ok, err := store.Load[store.Hook](tx, k)
	if err != nil || !ok {
		return "", err
	}
	var config struct {
		Version  string          `json:"configVersion"`
		Settings json.RawMessage `json:"settings"`
	}
	err = json.Unmarshal(h.Config, &config)
	return config.Version + string(config.Settings), err
}
