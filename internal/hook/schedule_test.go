package hook_test

import (
	"fmt"
	"testing"
	"time"

	"addon-operator/internal/hook"
)

func TestCrontabsFireWhenTheySay(t *testing.T) {
	t.Parallel()
	from := time.Date(2026, time.January, 31, 12, 0, 30, 0, time.UTC)
	for crontab, want := range map[string]string{
		"*/5 * * * *":                     "2026-01-31T12:05:00Z",
		"*/10 * * * * *":                  "2026-01-31T12:00:40Z",
		"@hourly":                         "2026-01-31T13:00:00Z",
		"@every 1m30s":                    "2026-01-31T12:02:00Z",
		"@every 1ms":                      "2026-01-31T12:00:31Z",
		" 0 3 * * 1 ":                     "2026-02-02T03:00:00Z",
		"0 0 12 ? FEB *":                  "2026-02-01T12:00:00Z",
		"TZ=Asia/Tokyo 0 0 * * *":         "2026-01-31T15:00:00Z",
		"CRON_TZ=Asia/Tokyo 15 0 0 * * *": "2026-01-31T15:00:15Z",
	} {
		schedule, err := hook.ParseCrontab(crontab)
		if err != nil {
			t.Errorf("%q: %v", crontab, err)
			continue
		}
		if got := schedule.Next(from).UTC().Format(time.RFC3339); got != want {
			t.Errorf("%q fires at %s, want %s", crontab, got, want)
		}
	}
}

func TestADayMatchesBothDayFieldsIfOneOfThemHasAStar(t *testing.T) {
	t.Parallel()
	from := time.Date(2026, time.January, 1, 12, 0, 0, 0, time.UTC) // a Thursday
	for crontab, want := range map[string]string{
		"0 3 */2 * 1-5":             "[Mon 5 Wed 7 Fri 9 Tue 13]",
		"0 0 3 */2 * 1-5":           "[Mon 5 Wed 7 Fri 9 Tue 13]",
		"CRON_TZ=UTC 0 3 */2 * 1-5": "[Mon 5 Wed 7 Fri 9 Tue 13]",
		"0 3 2,?/2 * 1-5":           "[Fri 2 Mon 5 Wed 7 Fri 9]",
		"0 3 1-7 * */2":             "[Sat 3 Sun 4 Tue 6 Sun 1]",
		"0 3 */2 * *":               "[Sat 3 Mon 5 Wed 7 Fri 9]",
		"0 3 * * 1":                 "[Mon 5 Mon 12 Mon 19 Mon 26]",
		"0 3 13 * 1":                "[Mon 5 Mon 12 Tue 13 Mon 19]",
		"0 3 1-31/7 * 1":            "[Mon 5 Thu 8 Mon 12 Thu 15]",
	} {
		schedule, err := hook.ParseCrontab(crontab)
		if err != nil {
			t.Errorf("%q: %v", crontab, err)
			continue
		}
		var days []string
		for next := schedule.Next(from); len(days) < 4; next = schedule.Next(next) {
			days = append(days, next.Format("Mon 2"))
		}
		if got := fmt.Sprint(days); got != want {
			t.Errorf("%q fires at %s, want %s", crontab, got, want)
		}
	}
}

func TestCrontabThatNeverFiresIsValid(t *testing.T) {
	t.Parallel()
	schedule, err := hook.ParseCrontab("0 5 31 2 *")
	if err != nil {
		t.Fatal(err)
	}
	if next := schedule.Next(time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)); !next.IsZero() {
		t.Errorf("31 February is %s", next)
	}
}

func TestBadCrontabsAreErrors(t *testing.T) {
	t.Parallel()
	for _, crontab := range []string{
		"", " ", "* * * *", "* * * * * * *", "60 * * * *", "*/0 * * * *", "@often", "@every", "@every x", "@every 0s",
		"@every -1m", "CRON_TZ=UTC @every 0s", "TZ=", "TZ=UTC", "CRON_TZ=UTC", "TZ=No/Where * * * * *", "TZ=../x * * * * *",
	} {
		if _, err := hook.ParseCrontab(crontab); err == nil {
			t.Errorf("%q is accepted", crontab)
		}
	}
}

// FuzzParseCrontab checks that ParseCrontab returns a schedule or an error for any text.
func FuzzParseCrontab(f *testing.F) {
	for _, seed := range []string{"*/5 * * * *", "@every 1h", "TZ=UTC", "TZ=UTC * * * * *", "0-59/7 1,2 ? * MON-FRI", "CRON_TZ= @daily"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, crontab string) {
		schedule, err := hook.ParseCrontab(crontab)
		if (schedule == nil) == (err == nil) {
			t.Errorf("%q gives %v and %v", crontab, schedule, err)
		}
	})
}
