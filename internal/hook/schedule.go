package hook

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"addon-operator/internal/tree"
)

// ScheduleBinding asks for runs at times.
type ScheduleBinding struct {
	// Name is what the binding context calls it; "schedule" unless given, and then perhaps not unique.
	Name string `json:"name"`
	// Crontab is as written; [ParseCrontab] takes it.
	Crontab string `json:"crontab"`
	// AllowFailure: a failed run counts as a successful one.
	AllowFailure bool   `json:"allowFailure,omitempty"`
	Queue        string `json:"queue"`
	Group        string `json:"group,omitempty"`
	// IncludeSnapshotsFrom names the kubernetes bindings whose snapshots come with each run, those of its group included.
	IncludeSnapshotsFrom []string `json:"includeSnapshotsFrom,omitempty"`
	// Timeout is how long one run may take; zero is that of the hook's settings.
	Timeout metav1.Duration `json:"timeout,omitzero"`
	// Legacy: it stood in a config without configVersion. Its ticks are told one a run.
	Legacy bool `json:"legacy,omitempty"`
}

// readScheduleBinding reads one item of the list schedule.
func readScheduleBinding(f field) ScheduleBinding {
	o := f.object("name", "crontab", "allowFailure", "queue", "group", "includeSnapshotsFrom", "timeout")
	return ScheduleBinding{
		Name:                 o.child("name").text("schedule"),
		Crontab:              readCrontab(o.need("crontab")),
		AllowFailure:         o.child("allowFailure").flag(false),
		Queue:                o.child("queue").text(MainQueue),
		Group:                o.child("group").text(""),
		IncludeSnapshotsFrom: o.child("includeSnapshotsFrom").texts(),
		Timeout:              metav1.Duration{Duration: o.child("timeout").duration()},
	}
}

func readCrontab(f field) string {
	crontab := f.full()
	if crontab == "" {
		return ""
	}
	if _, err := ParseCrontab(crontab); err != nil {
		f.fail("%v", err)
	}
	return crontab
}

// ParseCrontab reads a crontab of five fields, of six (seconds first), a descriptor such as @hourly, or @every with a
// duration; CRON_TZ=ZONE or TZ=ZONE and a space may come first. A crontab that never fires is valid: its schedule's
// next time is zero. An @every below a second fires each second.
func ParseCrontab(crontab string) (cron.Schedule, error) {
	spec := strings.TrimSpace(crontab)
	zoned := strings.HasPrefix(spec, "TZ=") || strings.HasPrefix(spec, "CRON_TZ=")
	if zoned && !strings.Contains(spec, " ") {
		return nil, errors.New("crontab has a time zone and nothing behind it")
	}
	parser := cron.NewParser(cron.SecondOptional | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow |
		cron.Descriptor)
	schedule, err := parser.Parse(spec)
	if err != nil {
		return nil, fmt.Errorf("crontab %q: %w", tree.Excerpt(crontab), err)
	}
	// The parser rounds a duration that is not positive up to a second; asking for that is a slip.
	if _, every, ok := strings.Cut(spec, "@every "); ok {
		if d, err := time.ParseDuration(every); err == nil && d <= 0 {
			return nil, fmt.Errorf("crontab %q: the duration must be positive", tree.Excerpt(crontab))
		}
	}
	return schedule, nil
}
