// Copyright the scaledjob-operator authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"cmp"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/build"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

const limitsPage = "docs/contributing/limits.md"

// notLimits are numbers in the code that limit nothing a reader could meet, and what they are.
var notLimits = map[string]string{
	"admission.miscellaneous":                      "the code of a warning",
	"controller.never":                             "longer than any wait",
	"controller.share: time.Second":                "the unit of controller.fallbackReads",
	"connection.newServer: make(chan struct{}, 1)": "a signal",
	"connection.dialCommand: time.After(time.Until(began.Add(s.timing.call * 11 / 10)))": "longer than a call",
	"connection.newClient.PipelinePoolSize":                                              "none: pipelines go over the other connections",
	"node.unknownLength":                                                                 "the length of a key of another type",
	"node.notDue":                                                                        "a place in no timetable",
	"dialguard.mappedBits":                                                               "a form of addresses",
	"enqueue.PriorityGrowth":                                                             "a priority",
	"enqueue.PriorityNormal":                                                             "a priority",
	"enqueue.PriorityResync":                                                             "a priority",
	"report.meanOf":                                                                      "the weight of a mean",
	"jobs.DryRunOrdinal":                                                                 "an ordinal",
	"jobs.hashLength":                                                                    "a part of jobs.maxNameLength",
	"main.checkElection: time.Second":                                                    "the unit of what a Lease keeps",
	"main.lookUp: make(chan error, 1)":                                                   "an answer",
	"cli.exitError":                                                                      "an exit code",
	"cli.exitUnmapped":                                                                   "an exit code",
	"cli.exitInterrupted":                                                                "an exit code",
	"cli.readLease: time.Second":                                                         "the unit of a Lease",
	"redis.open.DialerRetries":                                                           "none: the user sees the first error",
	"redis.open.MaxRetries":                                                              "none: the user sees the first error",
	"cli.exitFound":                                                                      "an exit code",
	"layout.padding":                                                                     "a part of a layout",
	"cli.defaultWidth":                                                                   "a part of a layout",
	"cli.minWidth":                                                                       "a part of a layout",
	"cli.maxTrend":                                                                       "a part of a layout",
	"cli.minTrend":                                                                       "a part of a layout",
	"cli.maxNote":                                                                        "a part of a layout",
	"convert.commentWidth":                                                               "a part of a layout",
	"convert.indent":                                                                     "a part of a layout",
	"convert.kedaMaxReplicas":                                                            "a default of KEDA",
	"convert.kedaTarget":                                                                 "a default of KEDA",
	"convert.maxPollingInterval":                                                         "the limit of a field, which the CRD sets",
	"convert.maxQueues":                                                                  "the limit of a field, which the CRD sets",
	"doctor.allSlots":                                                                    "the slots of a Redis Cluster",
	"explain.bound":                                                                      "a number whose sums do not overflow",
	"layout.leastWidth":                                                                  "a part of a layout",
	"pages.bounded: io.LimitReader(response.Body, maxBytes + 1)":          "one more, which shows that it is too large",
	"preflight.ReadSchemas: io.LimitReader(stream, maxDocumentBytes + 1)": "one more, which shows that it is too large",
	"queue.dueTime: time.Second":                                          "a unit of scores",
	"queue.fromMilliseconds: time.Millisecond":                            "a unit of scores",
	"queue.fromMilliseconds: time.Second":                                 "a unit of scores",
	"queue.jobsPerMillisecond":                                            "a unit of scores",
	"queue.lastSecond":                                                    "the end of the calendar",
	"budget.New: time.Second":                                             "the unit of the budget",
	"node.next: time.Millisecond":                                         "the least wait, so that it is positive",
	"enqueue.NewWakes: make(chan event.TypedGenericEvent[wake], 1)":       "a signal",
	"queue.least":                           "the elements of a reply",
	"queue.pair":                            "a member and its score",
	"leadership.ShortestLease: time.Second": "the unit of a Lease",
	"enqueue.add: retry.APIServer.After(q.NumRequeues(request) + 1)": "the delay of the work queue after an error",
	"enqueue.afterBackoff":                         "a sign, and no time",
	"leadership.see: time.Second":                  "the unit of a Lease",
	"topology.New: make(chan struct{}, 1)":         "a signal",
	"topology.startPoller: make(chan struct{}, 1)": "a signal",
	"topology.newWatcher: make(chan struct{}, 1)":  "a signal",
	"topology.address":                             "an index in a line",
	"topology.at":                                  "an index in a reply",
	"topology.epoch":                               "an index in a line",
	"topology.firstSlot":                           "an index in a line",
	"topology.flags":                               "an index in a line",
	"topology.hostAndPort":                         "the elements of a reply",
	"topology.least":                               "the elements of a reply",
	"topology.lifeBy: time.Millisecond":            "the unit of the setting",
	"topology.mostLogged":                          "the addresses in one log line",
	"topology.leastOfNode":                         "the elements of a reply",
	"topology.bits":                                "a part of a checksum",
	"topology.polynomial":                          "a part of a checksum",
	"topology.top":                                 "a part of a checksum",
	"topology.slots":                               "the slots of a Redis Cluster",
	"report.fieldOwner":                            "a name",
	"report.Status: time.Second":                   "the unit of times in a status",
}

func TestLimitsHaveTheValuesOfTheCode(t *testing.T) {
	t.Parallel()
	code := readCode(t)
	var wrong []string
	for _, row := range limitRows(t) {
		if len(row.constants) != len(row.values) {
			wrong = append(wrong, fmt.Sprintf("%q has the values %q for the constants %q", row.what, row.value, row.constants))
			continue
		}
		for i, name := range row.constants {
			is, known := code.valueOf(name)
			switch {
			case !known:
				wrong = append(wrong, "there is no "+name)
			case !is.equals(row.values[i]):
				wrong = append(wrong, fmt.Sprintf("%s is %s, and the page says %q", name, is, row.value))
			}
		}
	}
	NewWithT(t).Expect(wrong).To(BeEmpty())
}

func TestEveryLimitHasItsRow(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	named := map[string]bool{}
	for _, row := range limitRows(t) {
		for _, name := range row.constants {
			named[name] = true
		}
	}
	found := readCode(t).limits()
	missing := slices.DeleteFunc(slices.Clone(found), func(name string) bool { return named[name] || notLimits[name] != "" })
	g.Expect(missing).To(BeEmpty(), "name each in a row of "+limitsPage+", a bare number after making it a constant")
	for name := range notLimits {
		g.Expect(named).NotTo(HaveKey(name))
		g.Expect(found).To(ContainElement(name), "notLimits lists what is not there")
	}
}

func TestFlagsThatSetLimitsHaveTheirDefaults(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	code := readCode(t)
	defaults := map[string]quantity{}
	declared := regexp.MustCompile(`flags\.(?:Int|Duration|Float64|Uint)\w*Var\([^,]+, "([\w-]+)", ([^,]+),`)
	for _, flag := range declared.FindAllStringSubmatch(read(t, "cmd/options.go")+read(t, "cmd/election.go"), -1) {
		name := flag[2]
		if !strings.Contains(name, ".") {
			name = "main." + name
		}
		value, known := code.valueOf(name)
		g.Expect(known).To(BeTrue(), flag[2])
		defaults[flag[1]] = value
	}
	var named []string
	for _, row := range limitRows(t) {
		for _, flag := range row.flags {
			named = append(named, flag)
			g.Expect(defaults).To(HaveKey(flag))
			g.Expect(defaults[flag].equals(row.values[0])).To(BeTrue(), "--%s is %s by default, and the page says %q", flag, defaults[flag], row.value)
		}
	}
	g.Expect(named).To(ConsistOf(slices.Collect(maps.Keys(defaults))))
}

func TestLimitsOfFieldsAreThoseOfTheCRD(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	var crd apiextensionsv1.CustomResourceDefinition
	g.Expect(yaml.Unmarshal([]byte(read(t, "config/crd/bases/batch.miracle.dev_scaledjobs.yaml")), &crd)).To(Succeed())
	root := crd.Spec.Versions[0].Schema.OpenAPIV3Schema
	delete(root.Properties, "status")
	spec := root.Properties["spec"]
	delete(spec.Properties, "jobTemplate") // Kubernetes bounds it.
	bounds := map[string][]string{}
	defaults := map[string]string{}
	collectBounds(root, "", bounds, defaults)
	var expected []string
	for path, its := range bounds {
		slices.Sort(its)
		expected = append(expected, fmt.Sprintf("| `%s` | %s | %s |", path, strings.Join(its, "; "), cmp.Or(defaults[path], "–")))
	}
	g.Expect(all("(?m)^(\\| `.*\\|)$", section(t, "Fields of a ScaledJob"))).To(ConsistOf(expected))
}

func TestLimitsOfTheDeploymentAreThoseOfItsManifest(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	rows := regexp.MustCompile("(?m)^\\| [^|]+ \\| (\\w+) \\| `([\\w.]+)` \\|$").FindAllStringSubmatch(section(t, "Deployment"), -1)
	g.Expect(rows).NotTo(BeEmpty())
	for _, row := range rows {
		manifest := read(t, "config/manager/manager.yaml")
		for key := range strings.SplitSeq(row[2], ".") {
			var found bool
			_, manifest, found = strings.Cut(manifest, " "+key+":")
			g.Expect(found).To(BeTrue(), row[2])
		}
		value, _, _ := strings.Cut(manifest, "\n")
		g.Expect(strings.TrimSpace(value)).To(Equal(row[1]), row[2])
	}
}

// limitRow is a row of the page.
type limitRow struct {
	what, value      string
	values           []quantity
	constants, flags []string
}

// limitRows are the rows that say what sets a limit.
func limitRows(t *testing.T) []limitRow {
	t.Helper()
	g := NewWithT(t)
	var rows []limitRow
	text, _, found := strings.Cut(read(t, limitsPage), "\n## Fields of a ScaledJob")
	g.Expect(found).To(BeTrue())
	for _, line := range all(`(?m)^\| (.+) \|$`, text) {
		cells := strings.Split(line, " | ")
		if cells[0] == "limit" {
			continue
		}
		g.Expect(cells).To(HaveLen(4), line)
		row := limitRow{
			what: cells[0], value: cells[1], values: quantitiesIn(cells[1]),
			constants: all("`([a-z]\\w*(?:\\.\\w+)+)`", cells[3]), flags: all("`--([\\w-]+)`", cells[3]),
		}
		g.Expect(row.constants).NotTo(BeEmpty(), row.what)
		rows = append(rows, row)
	}
	g.Expect(rows).NotTo(BeEmpty())
	return rows
}

// section is the text below a heading of the page.
func section(t *testing.T, heading string) string {
	t.Helper()
	_, text, found := strings.Cut(read(t, limitsPage), "\n## "+heading+"\n")
	NewWithT(t).Expect(found).To(BeTrue(), heading)
	text, _, _ = strings.Cut(text, "\n## ")
	return text
}

// quantity is a number, or a time in nanoseconds.
type quantity struct {
	number constant.Value
	time   bool
}

func (q quantity) equals(other quantity) bool {
	return q.time == other.time && constant.Compare(q.number, token.EQL, other.number)
}

func (q quantity) String() string {
	if q.time {
		return constant.BinaryOp(constant.ToFloat(q.number), token.QUO, constant.MakeInt64(1e9)).String() + " s"
	}
	return q.number.String()
}

// timeUnits are in nanoseconds, by their names in package time.
var timeUnits = map[string]int64{
	"Nanosecond": 1, "Microsecond": 1e3, "Millisecond": 1e6, "Second": 1e9, "Minute": 60e9, "Hour": 3600e9,
}

// quantitiesIn are the quantities in a cell, as "50 ms up to 30 s" or "5 of 256 bytes".
func quantitiesIn(cell string) []quantity {
	times := map[string]string{"ns": "Nanosecond", "ms": "Millisecond", "s": "Second", "min": "Minute", "h": "Hour"}
	factors := map[string]int64{"": 1, "KiB": 1 << 10, "MiB": 1 << 20}
	var found []quantity
	for _, match := range regexp.MustCompile(`(\d[\d,]*(?:\.\d+)?)(?: (%|(?:ns|ms|s|min|h|KiB|MiB)\b))?`).FindAllStringSubmatch(cell, -1) {
		number := constant.MakeFromLiteral(strings.ReplaceAll(match[1], ",", ""), token.FLOAT, 0)
		unit, isTime := times[match[2]]
		switch {
		case isTime:
			number = constant.BinaryOp(number, token.MUL, constant.MakeInt64(timeUnits[unit]))
		case match[2] == "%":
			number = constant.BinaryOp(number, token.QUO, constant.MakeInt64(100))
		default:
			number = constant.BinaryOp(number, token.MUL, constant.MakeInt64(factors[match[2]]))
		}
		found = append(found, quantity{number, isTime})
	}
	return found
}

// code is what the product's code says in numbers.
type code struct {
	// expressions are those of constants, as package.name, and of the fields of values that package variables and
	// functions make, as package.function.field. Those of such a name differ in no two places.
	expressions map[string]expression
	// bare are numbers and times in places where a limit is given.
	bare []string
}

type expression struct {
	in  string
	say ast.Expr
}

// readCode reads all that is no test.
func readCode(t *testing.T) *code {
	t.Helper()
	g := NewWithT(t)
	found := &code{expressions: map[string]expression{}}
	files := map[string][]ast.Decl{}
	for _, tree := range []string{"cmd", "internal"} {
		g.Expect(filepath.WalkDir(filepath.Join(root, tree), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			// What has another build constraint is not shipped.
			if shipped, err := build.Default.MatchFile(filepath.Split(path)); err != nil || !shipped {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			files[file.Name.Name] = append(files[file.Name.Name], file.Decls...)
			return nil
		})).To(Succeed())
	}
	for _, note := range []func(in string, declaration ast.Decl){found.noteConstants, found.note} {
		for in, declarations := range files {
			for _, declaration := range declarations {
				note(in, declaration)
			}
		}
	}
	return found
}

// note reads what a declaration holds besides constants of the package.
func (c *code) note(in string, declaration ast.Decl) {
	switch of := declaration.(type) {
	case *ast.FuncDecl:
		c.noteInside(in, in+"."+of.Name.Name, of)
	case *ast.GenDecl:
		for _, spec := range of.Specs {
			if variable, is := spec.(*ast.ValueSpec); is && of.Tok == token.VAR {
				c.noteVariable(in, in+"."+variable.Names[0].Name, variable)
			}
		}
	}
}

// noteVariable reads a variable of a package. One that is a number is like a constant.
func (c *code) noteVariable(in, name string, variable *ast.ValueSpec) {
	if len(variable.Values) == 1 {
		if value, known := c.evaluate(in, variable.Values[0]); known && value.number.Kind() != constant.String {
			c.expressions[name] = expression{in, variable.Values[0]}
			return
		}
	}
	c.noteInside(in, name, variable)
}

// noteConstants reads constants. Those that count up, by iota, are names for something.
func (c *code) noteConstants(in string, declaration ast.Decl) {
	general, is := declaration.(*ast.GenDecl)
	if !is || general.Tok != token.CONST {
		return
	}
	for _, spec := range general.Specs {
		constants := spec.(*ast.ValueSpec)
		for i, name := range constants.Names {
			if i < len(constants.Values) && types.ExprString(constants.Values[i]) != "iota" {
				c.expressions[in+"."+name.Name] = expression{in, constants.Values[i]}
			}
		}
	}
}

// noteInside reads what a function or a variable, the owner, is made of.
func (c *code) noteInside(in, owner string, node ast.Node) {
	ast.Inspect(node, func(node ast.Node) bool {
		switch of := node.(type) {
		case *ast.GenDecl:
			c.noteConstants(in, of)
			return of.Tok != token.CONST
		case *ast.CompositeLit:
			c.noteFields(in, owner, of)
		case *ast.KeyValueExpr:
			_, noted := c.expressions[owner+"."+types.ExprString(of.Key)]
			return !noted
		case *ast.CallExpr:
			c.noteCall(owner, of)
		case *ast.SelectorExpr:
			if isTimeUnit(of) {
				c.bare = append(c.bare, owner+": "+types.ExprString(of))
			}
		}
		return true
	})
}

// noteFields reads the fields that are given a time, and those of a library's type that are given a number.
func (c *code) noteFields(in, owner string, literal *ast.CompositeLit) {
	_, ofLibrary := literal.Type.(*ast.SelectorExpr)
	for _, element := range literal.Elts {
		field, is := element.(*ast.KeyValueExpr)
		if !is || !saysNumber(field.Value) {
			continue
		}
		if value, known := c.evaluate(in, field.Value); known && (value.time || ofLibrary) {
			c.noteField(owner+"."+types.ExprString(field.Key), expression{in, field.Value})
		}
	}
}

// noteField notes what a field is given. Where one of the same name is given something else, the name would not tell
// which.
func (c *code) noteField(name string, given expression) {
	before, noted := c.expressions[name]
	if noted && types.ExprString(before.say) != types.ExprString(given.say) {
		c.bare = append(c.bare, name+": "+types.ExprString(given.say))
	}
	c.expressions[name] = given
}

// limiting are the calls that take a limit.
var limiting = []string{
	"NewLimiter", "NewWeighted", "SetLimit", "WithTimeout", "WithTimeoutCause", "WithDeadline", "NewTicker", "NewTimer", "After", "AfterFunc", "Limit",
	"LimitReader", "MaxBytesReader", "WithBufferSize",
}

// noteCall reads a call that takes a limit, or makes a channel, and notes it if that is a bare number.
func (c *code) noteCall(owner string, call *ast.CallExpr) {
	name := types.ExprString(call.Fun)
	selector, is := call.Fun.(*ast.SelectorExpr)
	limits := name == "make" && isChannel(call.Args[0]) || is && slices.Contains(limiting, selector.Sel.Name)
	for _, argument := range call.Args {
		if _, inner := argument.(*ast.FuncLit); limits && !inner && saysNumber(argument) {
			c.bare = append(c.bare, owner+": "+types.ExprString(call))
		}
	}
}

func isChannel(made ast.Expr) bool {
	_, is := made.(*ast.ChanType)
	return is
}

func isTimeUnit(selector *ast.SelectorExpr) bool {
	return types.ExprString(selector.X) == "time" && timeUnits[selector.Sel.Name] != 0
}

// saysNumber says whether an expression holds a number other than 0, or a unit of time, and not just names.
func saysNumber(say ast.Expr) (found bool) {
	ast.Inspect(say, func(node ast.Node) bool {
		switch of := node.(type) {
		case *ast.BasicLit:
			found = found || of.Kind == token.INT && of.Value != "0" || of.Kind == token.FLOAT
		case *ast.SelectorExpr:
			found = found || isTimeUnit(of)
		}
		return !found
	})
	return found
}

// limits are the names of all numbers and times, and what is none but can't be evaluated.
func (c *code) limits() []string {
	found := slices.Clone(c.bare)
	for name, of := range c.expressions {
		if value, known := c.evaluate(of.in, of.say); !known || value.number.Kind() != constant.String {
			found = append(found, name)
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

func (c *code) valueOf(name string) (value quantity, known bool) {
	of, known := c.expressions[name]
	if !known {
		return quantity{}, false
	}
	return c.evaluate(of.in, of.say)
}

// evaluate finds the value of an expression in a package.
func (c *code) evaluate(in string, say ast.Expr) (value quantity, known bool) {
	switch of := say.(type) {
	case *ast.BasicLit:
		if of.Kind == token.CHAR {
			return quantity{constant.MakeString(of.Value), false}, true // A letter is no number here.
		}
		return quantity{constant.MakeFromLiteral(of.Value, of.Kind, 0), false}, true
	case *ast.ParenExpr:
		return c.evaluate(in, of.X)
	case *ast.UnaryExpr:
		if value, known = c.evaluate(in, of.X); known && of.Op == token.SUB {
			return quantity{constant.UnaryOp(of.Op, value.number, 0), value.time}, true
		}
	case *ast.BinaryExpr:
		left, leftKnown := c.evaluate(in, of.X)
		if right, rightKnown := c.evaluate(in, of.Y); leftKnown && rightKnown {
			return combine(left, of.Op, right), true
		}
	case *ast.Ident:
		return c.valueOf(in + "." + of.Name)
	case *ast.SelectorExpr:
		if isTimeUnit(of) {
			return quantity{constant.MakeInt64(timeUnits[of.Sel.Name]), true}, true
		}
		return c.valueOf(types.ExprString(of))
	case *ast.CallExpr:
		return c.convert(in, of)
	}
	return quantity{}, false
}

// convert is the value of a conversion.
func (c *code) convert(in string, call *ast.CallExpr) (value quantity, known bool) {
	to := types.ExprString(call.Fun)
	if !slices.Contains([]string{"time.Duration", "int", "int32", "int64", "float64"}, to) {
		return quantity{}, false
	}
	value, known = c.evaluate(in, call.Args[0])
	return quantity{value.number, to == "time.Duration"}, known
}

// combine is the value of an operation, as Go has it: whole numbers are divided to a whole number.
func combine(left quantity, operation token.Token, right quantity) quantity {
	isTime := left.time || right.time
	switch {
	case operation == token.SHL || operation == token.SHR:
		by, _ := constant.Uint64Val(right.number)
		return quantity{constant.Shift(left.number, operation, uint(by)), isTime}
	case operation == token.QUO && left.number.Kind() == constant.Int && right.number.Kind() == constant.Int:
		operation = token.QUO_ASSIGN
	}
	return quantity{constant.BinaryOp(left.number, operation, right.number), isTime}
}

// sizeRule is a rule that bounds a size, as "size(bytes(self)) <= 1024".
var sizeRule = regexp.MustCompile(`^size\((bytes\()?self\.?([\w.]*)\)+ (<=|==) (\d+)$`)

// collectBounds finds in words what a schema says of the sizes of its fields, by their paths.
func collectBounds(of *apiextensionsv1.JSONSchemaProps, path string, bounds map[string][]string, defaults map[string]string) {
	note := func(path, words string) {
		if words != "" {
			bounds[path] = append(bounds[path], words)
		}
	}
	note(path, between(of.MinLength, of.MaxLength, " characters"))
	note(path, between(of.MinItems, of.MaxItems, " items"))
	note(path, between(of.Minimum, of.Maximum, ""))
	for _, rule := range of.XValidations {
		if match := sizeRule.FindStringSubmatch(rule.Rule); match != nil {
			note(strings.Trim(path+"."+match[2], "."), sizeWords(match[3], match[4], match[1] != "", of.Properties[match[2]].Type == "array"))
		}
	}
	if of.Default != nil {
		var value any
		if json.Unmarshal(of.Default.Raw, &value) == nil {
			defaults[path] = fmt.Sprint(value)
		}
	}
	for name, field := range of.Properties {
		collectBounds(&field, strings.Trim(path+"."+name, "."), bounds, defaults)
	}
	if of.Items != nil && of.Items.Schema != nil {
		collectBounds(of.Items.Schema, path+"[]", bounds, defaults)
	}
}

// sizeWords says in words what a rule allows.
func sizeWords(comparison, size string, ofBytes, ofItems bool) string {
	unit := " character"
	switch {
	case ofBytes:
		unit = " byte"
	case ofItems:
		unit = " item"
	}
	amount, _ := strconv.ParseInt(size, 10, 64)
	if amount != 1 {
		unit += "s"
	}
	return map[string]string{"<=": "at most ", "==": "exactly "}[comparison] + grouped(amount) + unit
}

// between says in words what two bounds allow, either of which may be missing.
func between[N int64 | float64](least, most *N, unit string) string {
	switch {
	case least != nil && most != nil:
		return grouped(int64(*least)) + " to " + grouped(int64(*most)) + unit
	case least != nil:
		return "at least " + grouped(int64(*least)) + unit
	case most != nil:
		return "at most " + grouped(int64(*most)) + unit
	}
	return ""
}

// grouped is a number with its thousands apart.
func grouped(number int64) string {
	digits := strconv.FormatInt(number, 10)
	for at := len(digits) - 3; at > 0; at -= 3 {
		digits = digits[:at] + "," + digits[at:]
	}
	return digits
}
