package worker

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/httpclient"
	"github.com/fourdollars/concourse-ci-machine/internal/base/units"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/beacon"
)

// Facts describe the machine. A zero value is missing or unknown.
type Facts struct {
	Build     int    // of Windows: 22621 is Windows 11 22H2
	Product   string // "Windows 11 Pro"
	Memory    uint64 // bytes
	Disk      Disk   // of the work folder
	LongPaths bool   // paths may be longer than 260 characters
	HIP       []Tool // HIP SDKs, the newest first
	Runtime   Tool   // amdhip64 of the driver
	Tools     map[string]Tool
}

// Disk describes a disk.
type Disk struct {
	Total, Free uint64 // bytes
	Rotates     *bool  // nil: unknown
}

// Tool describes an installed program.
type Tool struct{ Path, Version string }

// Level is the result of one row of a check.
type Level string

// The levels.
const (
	OK      Level = "ok"
	Warning Level = "warning"
	Failed  Level = "failed"
)

// Row is one requirement. Fix is the command or the page that helps.
type Row struct {
	Name  string `json:"name"`
	Level Level  `json:"level"`
	Text  string `json:"text"`
	Fix   string `json:"fix,omitempty"`
}

// Requirements of Windows and the machine.
const (
	windows11Build = 22621     // 22H2
	minMemory      = 31 * 1e9  // "32 GB", less the part of the firmware
	minDisk        = 195 * 1e9 // "200 GB", less the boot partitions
	minFree        = 20 * 1e9
)

const (
	driverPage = "https://www.amd.com/en/support/download/drivers.html (AMD Software: PRO Edition)"
	hipPage    = "https://www.amd.com/en/developer/resources/rocm-hub/hip-sdk.html"
)

// requiredTool describes a program of the tool chain. winget installs exactly this version.
type requiredTool struct {
	name, min, id, version, more string
}

// requiredTools returns the tool chain. The packages and versions are in the repository of
// winget (github.com/microsoft/winget-pkgs).
func requiredTools() []requiredTool {
	return []requiredTool{
		{"Python", "3.10", "Python.Python.3.12", "3.12.10", " --scope machine"},
		{"Visual Studio Build Tools", "17.0", "Microsoft.VisualStudio.2022.BuildTools", "17.14.9",
			` --override "--quiet --wait --add Microsoft.VisualStudio.Workload.VCTools --includeRecommended"`},
		{"Git", "2.30", "Git.Git", "2.51.0", " --scope machine"},
		{"CMake", "3.26", "Kitware.CMake", "3.31.6", ""},
		{"Ninja", "1.10", "Ninja-build.Ninja", "1.13.2", " --scope machine"},
	}
}

func (t requiredTool) install() string {
	return fmt.Sprintf("winget install --exact --id %s --version %s%s", t.id, t.version, t.more)
}

// newer reports whether version is at least min. Both have numbers with dots.
func newer(version, min string) bool { return slices.Compare(numbers(version), numbers(min)) >= 0 }

func numbers(version string) (all []int) {
	for part := range strings.SplitSeq(version, ".") {
		digits := strings.TrimRight(part, "abcdefghijklmnopqrstuvwxyz-")
		n, err := strconv.Atoi(digits)
		if err != nil {
			break
		}
		all = append(all, n)
	}
	return all
}

// machineRows compares the machine with the requirements.
func machineRows(f Facts, gpus []GPU) []Row {
	rows := []Row{windowsRow(f), memoryRow(f), diskRow(f.Disk)}
	rows = append(rows, gpuRows(gpus)...)
	rows = append(rows, hipRows(f)...)
	for _, t := range requiredTools() {
		row := Row{Name: t.name, Level: OK, Text: f.Tools[t.name].Version}
		switch have := f.Tools[t.name]; {
		case have.Path == "":
			row.Level, row.Text, row.Fix = Failed, "not installed for all users", t.install()
		case !newer(have.Version, t.min):
			row.Level, row.Fix = Failed, t.install()
			row.Text = fmt.Sprintf("%s is older than %s", have.Version, t.min)
		}
		rows = append(rows, row)
	}
	long := Row{Name: "long paths", Level: OK, Text: "on"}
	if !f.LongPaths {
		long.Level, long.Text = Warning, "paths end at 260 characters, and deep builds fail"
		long.Fix = `reg add HKLM\SYSTEM\CurrentControlSet\Control\FileSystem /v LongPathsEnabled /t REG_DWORD /d 1 /f`
	}
	return append(rows, long)
}

func windowsRow(f Facts) Row {
	row := Row{Name: "Windows", Level: OK, Text: fmt.Sprintf("%s, build %d", f.Product, f.Build)}
	if f.Build < windows11Build {
		row.Level, row.Fix = Failed, "start ms-settings:windowsupdate"
		row.Text += fmt.Sprintf(" is older than Windows 11 22H2 (%d)", windows11Build)
	} else if strings.Contains(f.Product, "Server") {
		row.Level, row.Text = Warning, row.Text+"; AMD supports Windows 11"
	}
	return row
}

func memoryRow(f Facts) Row {
	row := Row{Name: "memory", Level: OK, Text: units.FormatGB(f.Memory)}
	if f.Memory < minMemory {
		row.Level, row.Text = Warning, row.Text+" is less than 32 GB; large builds may fail"
	}
	return row
}

func diskRow(d Disk) Row {
	row := Row{Name: "disk", Level: OK}
	row.Text = fmt.Sprintf("%s, %s free", units.FormatGB(d.Total), units.FormatGB(d.Free))
	switch {
	case d.Free < minFree:
		row.Level, row.Text, row.Fix = Failed, row.Text+": less than 20 GB free", "cleanmgr"
	case d.Total < minDisk:
		row.Level, row.Text = Warning, row.Text+": less than 200 GB"
	case d.Rotates == nil:
		row.Level, row.Text = Warning, row.Text+"; it is unknown whether it is an SSD"
	case *d.Rotates:
		row.Level, row.Text = Warning, row.Text+"; it is not an SSD, and builds are slow"
	}
	return row
}

// gpuRows has one row for each GPU and its driver.
func gpuRows(gpus []GPU) (rows []Row) {
	if len(gpus) == 0 {
		return []Row{{Name: "GPU", Level: Failed, Text: "Windows shows no AMD GPU",
			Fix: "pnputil /enum-devices /class Display"}}
	}
	for _, g := range gpus {
		row := Row{Name: "GPU", Level: OK, Text: fmt.Sprintf("%s (1002:%04x), %s", g.Name, g.Device, g.Chip().GFX)}
		switch {
		case g.Driver == "":
			row.Level, row.Text = Failed, fmt.Sprintf("%s (1002:%04x) has no driver of AMD", g.Name, g.Device)
			row.Fix = driverPage
		case g.Chip().GFX == "":
			row.Level, row.Text = Warning, fmt.Sprintf("%s (1002:%04x) is of unknown architecture", g.Name, g.Device)
			row.Fix = "add its tag: " + Program + " install --tag gfx=..."
		default:
			row.Text += ", driver " + g.Driver
			if g.Release != "" {
				row.Text += ", AMD Software " + g.Release
			}
		}
		rows = append(rows, row)
	}
	return rows
}

// rows has a row for GPUs that tasks do not get.
func (s sight) rows() []Row {
	if s.problem == "" {
		return nil
	}
	return []Row{{Name: "GPU", Level: Failed, Text: s.problem, Fix: s.fix}}
}

func hipRows(f Facts) []Row {
	runtime := Row{Name: "HIP runtime", Level: OK, Text: f.Runtime.Path + " " + f.Runtime.Version}
	if f.Runtime.Path == "" {
		runtime.Level, runtime.Text, runtime.Fix = Failed, "amdhip64 is missing in System32", driverPage
	}
	sdk := Row{Name: "HIP SDK", Level: Warning, Fix: hipPage,
		Text: "not installed; only wheels with their own compiler can be built"}
	if len(f.HIP) > 0 {
		sdk = Row{Name: "HIP SDK", Level: OK, Text: f.HIP[0].Path}
	}
	return []Row{runtime, sdk}
}

// workerRows checks the installed worker.
func workerRows(st Status, tsa func(s Settings) error) []Row {
	if !st.Service.Installed {
		return []Row{{Name: "service", Level: Warning, Text: "not installed", Fix: Program + " install --help"}}
	}
	row := Row{Name: "service", Level: OK, Text: st.Service.State + " as " + st.Service.Account}
	switch {
	case st.Problem != "":
		row.Level, row.Text, row.Fix = Failed, st.Problem, Program+" status"
	case !st.Service.Automatic:
		row.Level, row.Text = Warning, "does not start with Windows"
		row.Fix = "sc.exe config " + ServiceName + " start= auto"
	}
	rows := []Row{row}
	if st.Settings == nil {
		return rows
	}
	if s := st.State; s != nil {
		rows = append(rows, accountRow(*s), cleaningRow(*s, st.Settings.LimitGB))
	}
	web := Row{Name: "web", Level: OK, Text: st.Settings.TSAHost + " accepts this worker"}
	switch err := tsa(*st.Settings); {
	case errors.Is(err, errKeyRefused):
		web.Level, web.Text = Failed, err.Error()
		web.Fix = "add this line to extra-worker-keys of the web: " + st.PublicKey
	case err != nil:
		web.Level, web.Text = Failed, err.Error()
		if host, port, err := net.SplitHostPort(st.Settings.TSAHost); err == nil {
			web.Fix = connectionTest(host, port)
		}
	}
	rows = append(rows, web)
	if st.Registration.State == beacon.Registered {
		rows = append(rows, Row{Name: "registration", Level: OK, Text: "registered as " + st.Settings.Name})
	}
	return rows
}

func accountRow(s State) Row {
	row := Row{Name: "account", Level: OK, Text: s.Account + " makes symbolic links and reads the HIP SDK"}
	switch {
	case s.LinkProblem != "":
		row.Level, row.Text, row.Fix = Failed, "tasks cannot have inputs: "+s.LinkProblem, Program+" install"
	case s.HIPProblem != "":
		row.Level, row.Text = Failed, s.HIPProblem
		row.Fix = fmt.Sprintf(`icacls "C:\Program Files\AMD\ROCm" /grant "%s:(OI)(CI)RX"`, s.Account)
	}
	return row
}

func cleaningRow(s State, limit int) Row {
	row := Row{Name: "work folder", Level: OK, Text: usage(s, limit)}
	if s.OverLimit {
		row.Level, row.Text = Warning, row.Text+": Concourse's volumes are above the limit"
		row.Fix = Program + " install --work-limit-gb N"
	}
	return row
}

// usage returns the size of the work folder and its limit.
func usage(s State, limit int) string {
	return fmt.Sprintf("%s of %d GB", units.FormatGB(uint64(max(0, s.WorkBytes))), limit)
}

// connectionTest returns the command that tries a connection.
func connectionTest(host, port string) string {
	return "Test-NetConnection " + host + " -Port " + port
}

// hostTimeout bounds one request.
const hostTimeout = 15 * time.Second

// hostRows requests each host through HTTPS, with the proxy of the environment.
func hostRows(hosts []string, request func(url string) error) []Row {
	rows := make([]Row, len(hosts))
	done := make(chan int)
	for i, h := range hosts {
		go func() {
			rows[i] = Row{Name: "host", Level: OK, Text: h}
			if err := request("https://" + h + "/"); err != nil {
				rows[i] = Row{Name: "host", Level: Failed, Text: err.Error(), Fix: connectionTest(h, "443")}
			}
			done <- i
		}()
	}
	for range hosts {
		<-done
	}
	return rows
}

// request sends a request. Any answer is a success.
func request(url string) error {
	resp, err := httpclient.New(httpclient.Options{Proxy: http.ProxyFromEnvironment, Timeout: hostTimeout}).Head(url)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// loginAt checks the web with the worker's key. Without the right to read the key it checks
// only the web's key.
func loginAt(p paths) func(Settings) error {
	return func(s Settings) error {
		private, err := os.ReadFile(p.key())
		if err != nil {
			private = nil
		}
		return checkTSA(s.TSAHost, s.TSAPublicKey, private)
	}
}

// parseInstance reads the file state.json of an installation of Visual Studio.
func parseInstance(data []byte) (Tool, error) {
	var s struct {
		Path    string `json:"installationPath"`
		Version string `json:"installationVersion"`
	}
	if err := json.Unmarshal(data, &s); err != nil {
		return Tool{}, err
	}
	return Tool{Path: s.Path, Version: s.Version}, nil
}
