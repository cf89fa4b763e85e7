package webui

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"addon-operator/cmd/addon-operator/debugapi"
	"addon-operator/workflow/inspect"
)

// timeline is the model of the view of the timeline.
type timeline struct {
	frame

	Subject, Since string
	Limit          int
	Events         inspect.Timeline
	Chart          *attempts
}

func (p *reader) timeline(r *http.Request) (model, error) {
	t := &timeline{Subject: strings.TrimSpace(r.FormValue("subject")), Since: strings.TrimSpace(r.FormValue("since"))}
	var err error
	if t.Limit, err = limitOf(r, debugapi.ShownEntries); err != nil {
		return nil, err
	}
	args := command("timeline", t.Subject, "-n", strconv.Itoa(t.Limit))
	query := url.Values{"subject": {t.Subject}, "limit": {strconv.Itoa(t.Limit)}}
	if t.Since != "" {
		args = append(args, "--since", t.Since)
		since, err := sinceOf(t.Since, time.Now())
		if err != nil {
			return nil, err
		}
		query.Set("since", since.UTC().Format(time.RFC3339))
	}
	t.frame = p.frame(r, strings.TrimSpace("Timeline "+t.Subject), args)
	if err := p.api.get(r.Context(), "/workflow/timeline", query, &t.Events); err != nil {
		return nil, err
	}
	t.Chart = newAttempts(t.Events.Entries, t.Now)
	return t, nil
}

// Older returns the path of the same view with more entries. The path is empty if there are no more entries, or if the
// view has the maximum number of entries.
func (t *timeline) Older() string {
	if !t.Events.More || t.Limit >= mostEntries {
		return ""
	}
	return at(map[string]string{"subject": t.Subject, "since": t.Since, "limit": strconv.Itoa(min(t.Limit*4, mostEntries))}, "timeline")
}

// sinceOf parses text, which is a time in RFC 3339 format, or a duration that is subtracted from now.
func sinceOf(text string, now time.Time) (time.Time, error) {
	if d, err := time.ParseDuration(text); err == nil && d > 0 {
		return now.Add(-d), nil
	}
	since, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return since, badRequest("since must be a duration such as 2h, or a time such as 2006-01-02T15:04:05Z (got %q)", text)
	}
	return since, nil
}
