package settings

import "testing"

// TestDebugPagesAreServedOnTheLoopbackOnly reads the address of the debug port from different
// values of its setting. The address must be a loopback address. If the value is another address,
// there must be a warning.
func TestDebugPagesAreServedOnTheLoopbackOnly(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		given, want string
		warns       bool
	}{
		{"127.0.0.1:9115", "127.0.0.1:9115", false},
		{"localhost:1", "localhost:1", false},
		{"[::1]:9115", "[::1]:9115", false},
		{"0.0.0.0:9652", "127.0.0.1:9652", true},
		{":9652", "127.0.0.1:9652", true},
		{"10.1.2.3:9652", "127.0.0.1:9652", true},
		{"", "", false},
	} {
		s := Settings{DebugAddress: test.given}
		got, warning, err := s.DebugPort()
		if got != test.want || (warning != "") != test.warns || err != nil {
			t.Errorf("%q: %q, warning %q, %v", test.given, got, warning, err)
		}
	}
	if got := parse(t).DebugAddress; got != "127.0.0.1:9115" {
		t.Errorf("the default is %q", got)
	}
	if _, _, err := (&Settings{DebugAddress: "nonsense"}).DebugPort(); !isError(err) {
		t.Errorf("nonsense: %v", err)
	}
}
