package room

import "testing"

func TestKnowsWhatIsReplaced(t *testing.T) {
	for path, want := range map[string]bool{
		"/var": true, "/var/cache/causeway": true, "/run/user/0": true, "/tmp/checkout": true,
		"/root/.cache": false, "/variable": false, "/": false,
	} {
		if isReplaced(path) != want {
			t.Errorf("%s: %v", path, !want)
		}
	}
}
