package failure

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"addon-operator/internal/api"
	"addon-operator/internal/catalog/source"
	"addon-operator/internal/text"
	"addon-operator/steps/addons/registry"
	"addon-operator/store"
)

// Causes are the reasons why a configuration has the phase Failed.
type Causes struct {
	repositories, unread int // number of repositories; number of repositories that could not be read
	addons, failed       int // number of addons in the repositories that could be read; number of these addons that failed
	reasons              []api.Reason
	// Problems describes the first repositories and addons that failed, one in each element. If
	// more have failed, the last element is "…".
	Problems []string
	sum      []byte // checksum of all problems
}

// mostProblems is the maximum number of problems of one configuration that are described.
const mostProblems = 5

// Of returns the reasons why a configuration with these results has the phase Failed.
func Of(results []store.RepositoryResult) Causes {
	f := Causes{repositories: len(results)}
	sum := sha256.New()
	add := func(what, reason, message string) {
		if !slices.Contains(f.reasons, api.Reason(reason)) {
			f.reasons = append(f.reasons, api.Reason(reason))
		}
		_, _ = fmt.Fprintf(sum, "%q %s\n", what, reason) // the checksum omits the message, which can differ each time
		switch {
		case len(f.Problems) < mostProblems:
			f.Problems = append(f.Problems, fmt.Sprintf("%s: %s: %s", forLog(what), reason, forLog(message)))
		case len(f.Problems) == mostProblems:
			f.Problems = append(f.Problems, "…")
		}
	}
	for _, r := range results {
		if r.Reason != "" {
			f.unread++
			add("repository "+r.URL, r.Reason, r.Message)
		}
		f.addons += len(r.Addons)
		for _, a := range r.Addons {
			if a.Reason != "" {
				f.failed++
				add(fmt.Sprintf("addon %s %s", cmp.Or(a.Name, a.Entry), cmp.Or(a.Version, a.EntryVersion)), a.Reason, a.Message)
			}
		}
	}
	f.sum = sum.Sum(nil)
	return f
}

// forLog returns the beginning of a text for a log, without credentials.
func forLog(text string) string { return Shorten(source.WithoutCredentials(text)) }

// shortText is the length in bytes after which [Shorten] cuts a text.
const shortText = 200

// Shorten returns the beginning of a text, for a status or a log.
func Shorten(text string) string { return registry.Cut(text, shortText) }

// Digest returns a checksum of all problems and their reasons, without their messages.
func (f Causes) Digest() string { return hex.EncodeToString(f.sum[:16]) }

// Summary returns one line with the number of failed repositories and addons, and the command that
// shows more.
func (f Causes) Summary(id api.Identity) string {
	var parts []string
	if f.unread > 0 {
		parts = append(parts, fmt.Sprintf("%d of %s could not be read", f.unread, text.Count(f.repositories, "repository", "repositories")))
	}
	if f.failed > 0 {
		parts = append(parts, fmt.Sprintf("%d of %s failed", f.failed, text.Count(f.addons, "addon", "addons")))
	}
	reasons := make([]string, len(f.reasons))
	for i, r := range f.reasons {
		reasons[i] = string(r)
	}
	return fmt.Sprintf("%s (%s); see addon-operator addons why %s", strings.Join(parts, ", "), strings.Join(reasons, ", "), id)
}
