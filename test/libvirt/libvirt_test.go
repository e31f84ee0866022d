// Package libvirt has windsock observe a real libvirtd, the one that up starts: what is
// done to domains there has to arrive as the right callbacks, and no others.
package libvirt

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"windsock/test/program"
)

var uri = os.Getenv("WINDSOCK_TEST_LIBVIRT")

func TestMain(m *testing.M) {
	if uri == "" {
		os.Exit(m.Run())
	}
	os.Exit(program.Main(m))
}

func virsh(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command("virsh", append([]string{"--quiet", "--connect", uri}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("virsh %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// define makes a domain of the deployment shop until the test ends, and returns its id:
// 16 MB, emulated, with nothing to boot from.
func define(t *testing.T, name string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "domain.xml")
	err := os.WriteFile(file, []byte(fmt.Sprintf(`<domain type="qemu"><name>%s</name><memory unit="MiB">16</memory><vcpu>1</vcpu>
		<metadata><windsock:instance xmlns:windsock="urn:windsock" deployment="shop" assembly="web"/></metadata>
		<os><type arch="x86_64" machine="pc">hvm</type></os>
		<devices><emulator>/usr/bin/qemu-system-x86_64</emulator><memballoon model="none"/></devices></domain>`, name)), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	virsh(t, "define", file)
	t.Cleanup(func() {
		exec.Command("virsh", "--connect", uri, "destroy", name).Run()
		exec.Command("virsh", "--connect", uri, "undefine", name).Run()
	})
	return virsh(t, "domuuid", name)
}

func observe(t *testing.T) program.Observers {
	t.Helper()
	if uri == "" {
		t.Skip("WINDSOCK_TEST_LIBVIRT is not set: there is no libvirtd to test with; test/libvirt/up starts one")
	}
	return program.Observe(t, fmt.Sprintf("kind: libvirt, uri: %q", uri))
}

// kill ends the process whose id is in a file, as a crash would.
func kill(t *testing.T, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.Fields(string(text))[0])
	if err == nil && pid <= 1 {
		err = errors.New("that is nobody")
	}
	if err == nil {
		err = syscall.Kill(pid, syscall.SIGKILL)
	}
	if err != nil {
		t.Fatalf("%s: %q: %v", file, text, err)
	}
}

// runtime is where libvirtd keeps its socket, and the pid files of its guests below it.
func runtime(t *testing.T) string {
	t.Helper()
	u, err := url.Parse(uri)
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Dir(u.Query().Get("socket"))
}

func TestWhatIsDoneToADomainIsToldOnce(t *testing.T) {
	list := observe(t)
	id := define(t, "shop-web-1")
	list.Hear(t, id, "STOP DETECTED")
	virsh(t, "start", "shop-web-1")
	list.Hear(t, id, "START DETECTED")
	virsh(t, "suspend", "shop-web-1")
	if reason := list.Hear(t, id, "STOP DETECTED"); reason != "a user paused it" {
		t.Errorf("the reason is %q", reason)
	}
	virsh(t, "resume", "shop-web-1")
	list.Hear(t, id, "START DETECTED")
	virsh(t, "destroy", "shop-web-1")
	if reason := list.Hear(t, id, "STOP DETECTED"); reason != "it was powered off" {
		t.Errorf("the reason is %q", reason)
	}
	virsh(t, "start", "shop-web-1")
	list.Hear(t, id, "START DETECTED")
	kill(t, filepath.Join(runtime(t), "qemu/run/shop-web-1.pid"))
	if reason := list.Hear(t, id, "FAIL DETECTED"); reason != "it crashed, or was killed" {
		t.Errorf("the reason is %q", reason)
	}
	virsh(t, "undefine", "shop-web-1")
	list.Hear(t, id, "STOP DETECTED") // it is gone
	list.Quiet(t)
}

// TestALibvirtdThatIsStartedAnewSaysNothing kills it while it is observed; its guests
// outlive it.
func TestALibvirtdThatIsStartedAnewSaysNothing(t *testing.T) {
	list := observe(t)
	id := define(t, "shop-web-2")
	list.Hear(t, id, "STOP DETECTED")
	virsh(t, "start", "shop-web-2")
	list.Hear(t, id, "START DETECTED")
	kill(t, filepath.Join(runtime(t), "../../libvirtd.pid"))
	list.StartAnew(t)
	virsh(t, "suspend", "shop-web-2") // waits until libvirtd has its guest back: of one that dies before that it tells no event
	list.Hear(t, id, "STOP DETECTED")
	virsh(t, "resume", "shop-web-2")
	list.Hear(t, id, "START DETECTED")
	kill(t, filepath.Join(runtime(t), "qemu/run/shop-web-2.pid"))
	list.Hear(t, id, "FAIL DETECTED")
}

// TestDomainsAreHeldWhileTheirHostIsLost has the machine be reported lost, and found again, by its
// name alone: that is told, and of what runs there nothing, as all of it runs again.
func TestDomainsAreHeldWhileTheirHostIsLost(t *testing.T) {
	list := observe(t)
	id := define(t, "shop-web-3")
	list.Hear(t, id, "STOP DETECTED")
	virsh(t, "start", "shop-web-3")
	list.Hear(t, id, "START DETECTED")
	list.LoseHost(t, id)
}
