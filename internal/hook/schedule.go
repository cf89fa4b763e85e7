package hook

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"addon-operator/internal/tree"
)

// ScheduleBinding runs the hook on a schedule.
type ScheduleBinding struct {
	// Name is the name of the binding in the binding context. The default is "schedule", which several bindings may
	// have.
	Name string `json:"name"`
	// Crontab is the crontab as written in the config, in the syntax of [ParseCrontab].
	Crontab string `json:"crontab"`
	// AllowFailure means that a failed run is counted, but not retried.
	AllowFailure bool   `json:"allowFailure,omitempty"`
	Queue        string `json:"queue"`
	Group        string `json:"group,omitempty"`
	// IncludeSnapshotsFrom contains the names of the kubernetes bindings whose snapshots the hook gets in each run for
	// this binding. It includes the names of all kubernetes bindings of the group.
	IncludeSnapshotsFrom []string `json:"includeSnapshotsFrom,omitempty"`
	// Timeout is the maximum duration of a run for this binding. Zero means the timeout in the settings of the hook.
	Timeout metav1.Duration `json:"timeout,omitzero"`
	// Legacy is set if the config has no configVersion. The hook then runs separately for each tick.
	Legacy bool `json:"legacy,omitempty"`
}

// readScheduleBinding reads one item of the list "schedule" in a config.
func readScheduleBinding(f field) ScheduleBinding {
	o := f.object("name", "crontab", "allowFailure", "queue", "group", "includeSnapshotsFrom", "timeout")
	return ScheduleBinding{
		Name:                 o.child("name").text("schedule"),
		Crontab:              readCrontab(o.need("crontab")),
		AllowFailure:         o.child("allowFailure").flag(false),
		Queue:                readQueue(o.child("queue")),
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

// ParseCrontab parses a crontab. A crontab has five fields, or six fields with the seconds first. It can also be a
// descriptor such as @hourly, or @every and a duration. Each crontab may begin with CRON_TZ=ZONE or TZ=ZONE and a
// space. Without a time zone of its own, a crontab is in the time zone of this process. If the day of the month or the
// day of the week has a star, such as * or */2, a day must match both fields. Otherwise a day must match one of them. A
// crontab that never fires is valid: the method Next of its schedule returns the zero time. @every with a duration
// below one second fires every second.
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
	markStars(schedule, strings.Fields(spec))
	// Reject a duration that is negative or zero, because it is a mistake. The parser would round it up to one second.
	if _, every, ok := strings.Cut(spec, "@every "); ok {
		if d, err := time.ParseDuration(every); err == nil && d <= 0 {
			return nil, fmt.Errorf("crontab %q: the duration must be positive", tree.Excerpt(crontab))
		}
	}
	return localSchedule{schedule}, nil
}

// markStars marks the day of the month and the day of the week of a schedule if they have a star. The argument fields
// contains the fields of its crontab. The package cron does not mark a star with a step, such as */2. But crond and
// shell-operator treat it like a star without a step: 0 3 */2 * 1-5 fires on weekdays that are odd days of the month.
func markStars(schedule cron.Schedule, fields []string) {
	const starBit = 1 << 63 // the mark of the package cron
	s, ok := schedule.(*cron.SpecSchedule)
	if !ok || len(fields) < 5 { // it is a descriptor, such as @daily
		return
	}
	if hasStar(fields[len(fields)-3]) {
		s.Dom |= starBit
	}
	if hasStar(fields[len(fields)-1]) {
		s.Dow |= starBit
	}
}

func hasStar(field string) bool {
	return slices.ContainsFunc(strings.Split(field, ","), func(item string) bool {
		return strings.HasPrefix(item, "*") || strings.HasPrefix(item, "?")
	})
}

// A localSchedule uses the time zone of this process for a crontab that names no time zone. The schedules of the
// package cron would use the time zone of the argument of Next.
type localSchedule struct{ cron.Schedule }

// Next returns the first time after t that the crontab selects, in UTC; the zero time if it selects none.
func (s localSchedule) Next(t time.Time) time.Time { return s.Schedule.Next(t.In(time.Local)).UTC() }
