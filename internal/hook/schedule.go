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

// ScheduleBinding starts runs on a schedule.
type ScheduleBinding struct {
	// Name is the name in the binding context. The default is "schedule", which need not be unique.
	Name string `json:"name"`
	// Crontab is as written, in the syntax of [ParseCrontab].
	Crontab string `json:"crontab"`
	// AllowFailure treats a failed run as successful.
	AllowFailure bool   `json:"allowFailure,omitempty"`
	Queue        string `json:"queue"`
	Group        string `json:"group,omitempty"`
	// IncludeSnapshotsFrom names the kubernetes bindings whose snapshots are part of each run,
	// including those of its group.
	IncludeSnapshotsFrom []string `json:"includeSnapshotsFrom,omitempty"`
	// Timeout is the maximum duration of one run; zero means the timeout of the hook's settings.
	Timeout metav1.Duration `json:"timeout,omitzero"`
	// Legacy is true for a binding of a config without configVersion. Each of its runs gets one
	// tick.
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

// ParseCrontab parses a crontab of five fields, of six (seconds first), a descriptor such as
// @hourly, or @every with a duration. CRON_TZ=ZONE or TZ=ZONE and a space may precede it. A crontab
// that never fires is valid: the next time of its schedule is zero. An @every below a second fires
// every second.
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
	// The parser rounds a duration that is not positive up to a second; such a duration is a
	// mistake.
	if _, every, ok := strings.Cut(spec, "@every "); ok {
		if d, err := time.ParseDuration(every); err == nil && d <= 0 {
			return nil, fmt.Errorf("crontab %q: the duration must be positive", tree.Excerpt(crontab))
		}
	}
	return schedule, nil
}
