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
	// Name is the name in the binding context. The default is "schedule", which several bindings
	// may have.
	Name string `json:"name"`
	// Crontab is the crontab as written in the config, in the syntax of [ParseCrontab].
	Crontab string `json:"crontab"`
	// AllowFailure treats a failed run as successful.
	AllowFailure bool   `json:"allowFailure,omitempty"`
	Queue        string `json:"queue"`
	Group        string `json:"group,omitempty"`
	// IncludeSnapshotsFrom contains the names of the kubernetes bindings whose snapshots each run
	// gets, including all bindings of the group.
	IncludeSnapshotsFrom []string `json:"includeSnapshotsFrom,omitempty"`
	// Timeout is the maximum duration of one run; zero means the timeout of the hook's settings.
	Timeout metav1.Duration `json:"timeout,omitzero"`
	// Legacy is true for a binding of a config without configVersion. Each run of such a binding
	// gets one tick.
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

// ParseCrontab parses a crontab. It consists of five fields, or of six fields with the seconds
// first, or is a descriptor such as @hourly, or @every with a duration. CRON_TZ=ZONE or TZ=ZONE and
// a space may precede the crontab. A crontab that never fires is valid: then the Next method of the
// schedule returns the zero time. An @every with a duration below one second fires every second.
func ParseCrontab(crontab string) (cron.Schedule, error) {
	spec := strings.TrimSpace(crontab)
	zoned := strings.HasPrefix(spec, "TZ=") || strings.HasPrefix(spec, "CRON_TZ=")
	if zoned && !strings.Contains(spec, " ") {
		return nil, errors.New("crontab has a time zone but no schedule")
	}
	parser := cron.NewParser(cron.SecondOptional | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow |
		cron.Descriptor)
	schedule, err := parser.Parse(spec)
	if err != nil {
		return nil, fmt.Errorf("crontab %q: %w", tree.Excerpt(crontab), err)
	}
	// The parser rounds a negative or zero duration up to one second. Such a duration is rejected
	// here, because it is a mistake.
	if _, every, ok := strings.Cut(spec, "@every "); ok {
		if d, err := time.ParseDuration(every); err == nil && d <= 0 {
			return nil, fmt.Errorf("crontab %q: the duration must be positive", tree.Excerpt(crontab))
		}
	}
	return schedule, nil
}
