package inspect

import (
	"strings"
	"testing"
	"time"
)

func TestAnAPIServerThatIsSlowRefusesOrFailsIsAProblemOfTheStatus(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		requests Requests
		says     string // empty if there is no problem
		text     string
	}{
		"well":             {Requests{Answered: 500, Within: 50 * time.Millisecond}, "", "500 requests in 5m00s, 95 % within 50ms"},
		"no requests":      {Requests{}, "", "no requests in 5m00s"},
		"a restart of it":  {Requests{Answered: 500, Within: time.Second, Failed: 12}, "", "500 requests in 5m00s, 95 % within 1s, 12 failed"},
		"it fails":         {Requests{Answered: 100, Within: time.Second, Failed: 10}, "10 requests failed in the last 5m00s", ""},
		"none responds":    {Requests{Failed: 30}, "30 requests failed in the last 5m00s", "0 requests"},
		"it refuses":       {Requests{Answered: 500, Within: time.Second, Throttled: 10}, "10 requests were refused in the last 5m00s (status 429)", "10 refused (429)"},
		"it refuses a few": {Requests{Answered: 500, Within: time.Second, Throttled: 9}, "", "9 refused (429)"},
		"it is slow":       {Requests{Answered: 20, Within: 10 * time.Second}, "more than 1 of 20 requests took longer than 5 s in the last 5m00s", ""},
		"few are slow":     {Requests{Answered: 19, Within: 30 * time.Second}, "", "95 % within 30s"},
	} {
		test.requests.Span = 5 * time.Minute
		p := test.requests.problem()
		switch {
		case (p == nil) != (test.says == ""):
			t.Errorf("%s: problem %+v", name, p)
		case p != nil && (p.Kind != KindAPIServer || !strings.Contains(p.Error, test.says)):
			t.Errorf("%s: problem %+v", name, p)
		}
		if text := test.requests.text(); !strings.Contains(text, test.text) {
			t.Errorf("%s: text %q", name, text)
		}
	}
	if p := (*Requests)(nil).problem(); p != nil {
		t.Errorf("without an operator: %+v", p)
	}
}
