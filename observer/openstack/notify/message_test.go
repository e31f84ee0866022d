package notify

import (
	"bufio"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"windsock"
)

// A recording is a notification of a real OpenStack (Zed), without its context and tokens.
type recording struct {
	About string // the name that its payload has for the server or stack
	Body  string
}

func recordings(t testing.TB) (all []recording) {
	file, err := os.Open("testdata/notifications.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var r recording
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	return all
}

func TestRecordedNotificationsSayWhereToLook(t *testing.T) {
	ids := map[string]windsock.Subject{
		"web-1":    {Kind: windsock.KindInstance, ID: "7a42656d-d685-4367-b86c-e79be8862150"},
		"broken-1": {Kind: windsock.KindInstance, ID: "d7ce65e6-39c9-497e-bd35-4cb7030d1cf9"},
		"nohost-1": {Kind: windsock.KindInstance, ID: "5f51f28f-413e-4741-a8d9-6d493ddd32c1"},
		"shop":     {Kind: windsock.KindDeployment, ID: "75737e7e-7bdb-4866-a11a-89f913512752"},
	}
	about := map[string]int{}
	for _, r := range recordings(t) {
		about[r.About]++
		want, has := ids[r.About]
		if got, ok := subject([]byte(r.Body)); ok != has || ok && got != want {
			t.Errorf("got %v %v, want %v %v (%s): %s", got, ok, want, has, r.About, r.Body)
		}
	}
	for name := range ids {
		if about[name] < 2 {
			t.Errorf("%d recordings about %s", about[name], name)
		}
	}
}

func TestWhatSaysNothingIsIgnored(t *testing.T) {
	const id = `\"instance_id\":\"7a42656d-d685-4367-b86c-e79be8862150\"`
	for name, body := range map[string]string{
		"nothing":                  ``,
		"no envelope":              `{"event_type":"compute.instance.update","payload":{"instance_id":"7a42656d-d685-4367-b86c-e79be8862150"}}`,
		"an envelope of no string": `{"oslo.message":{"event_type":"compute.instance.update"}}`,
		"cut off":                  `{"oslo.message":"{\"event_type\":\"compute.instance.update\",\"payload\":{` + id,
		"a payload that is a list": `{"oslo.message":"{\"event_type\":\"compute.instance.update\",\"payload\":[]}"}`,
		"an id that is a number":   `{"oslo.message":"{\"event_type\":\"compute.instance.update\",\"payload\":{\"instance_id\":7}}"}`,
		"an id that is none":       `{"oslo.message":"{\"event_type\":\"compute.instance.update\",\"payload\":{\"instance_id\":\"../../all\"}}"}`,
		"the uuid of a service":    `{"oslo.message":"{\"event_type\":\"service.update\",\"payload\":{\"nova_object.data\":{\"uuid\":\"7a42656d-d685-4367-b86c-e79be8862150\"}}}"}`,
		"accounting":               `{"oslo.message":"{\"event_type\":\"compute.instance.exists\",\"payload\":{` + id + `}}"}`,
		"too long":                 `{"oslo.message":"{\"event_type\":\"compute.instance.update\",\"payload\":{` + id + `}}` + strings.Repeat(" ", maxBody) + `"}`,
	} {
		if got, ok := subject([]byte(body)); ok {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func FuzzSubject(f *testing.F) {
	for _, r := range recordings(f) {
		f.Add([]byte(r.Body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if s, ok := subject(body); ok && (len(s.ID) != 36 || s.Kind == "") {
			t.Errorf("%v of %q", s, body)
		}
	})
}
