// Command schema prints the fields of Pod and Node as the policy language sees them, one record a paragraph.
//
// The output is the second part of grammar/meaning/schema.txt. Run it in this folder with `go run .`.
package main

import (
	"bufio"
	"fmt"
	"os"
	"reflect"
	"sort"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// What encodes itself as a JSON string or number, so that its Go fields are not its JSON fields.
var scalars = map[reflect.Type]string{
	reflect.TypeFor[resource.Quantity]():  "quantity",
	reflect.TypeFor[metav1.Time]():        "timestamp",
	reflect.TypeFor[metav1.MicroTime]():   "timestamp",
	reflect.TypeFor[metav1.Duration]():    "duration",
	reflect.TypeFor[intstr.IntOrString](): "dyn",
}

// Bookkeeping of server-side apply: large, and nothing a placement could mean.
var omitted = map[string]bool{"managedFields": true}

type field struct{ name, kind string }

// schema gathers records by name; two Go types of one name would be two records, and are an error.
type schema struct {
	records map[string][]field
	types   map[string]reflect.Type
}

func main() {
	s := schema{records: map[string][]field{}, types: map[string]reflect.Type{}}
	roots := []reflect.Type{reflect.TypeFor[corev1.Pod](), reflect.TypeFor[corev1.Node]()}
	for _, root := range roots {
		s.record(root)
	}
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	for i, name := range s.names(roots) {
		if i > 0 {
			fmt.Fprintln(out)
		}
		fmt.Fprintln(out, name)
		width := 0
		for _, f := range s.records[name] {
			width = max(width, len(f.name))
		}
		for _, f := range s.records[name] {
			fmt.Fprintf(out, "  %-*s  %s\n", width, f.name, f.kind)
		}
	}
}

// names are the roots first, then every other record by the alphabet.
func (s *schema) names(roots []reflect.Type) []string {
	var first, rest []string
	for _, root := range roots {
		first = append(first, root.Name())
	}
	for name := range s.records {
		if name != "Pod" && name != "Node" {
			rest = append(rest, name)
		}
	}
	sort.Strings(rest)
	return append(first, rest...)
}

func (s *schema) record(t reflect.Type) {
	name := t.Name()
	if known, ok := s.types[name]; ok {
		if known != t {
			panic(fmt.Sprintf("%s is both %s and %s", name, known.PkgPath(), t.PkgPath()))
		}
		return
	}
	s.types[name] = t
	s.records[name] = s.fields(t)
}

func (s *schema) fields(t reflect.Type) []field {
	var fields []field
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-" || omitted[name]:
		case name == "" && f.Anonymous:
			fields = append(fields, s.fields(f.Type)...)
		case name == "":
			panic(fmt.Sprintf("%s.%s has no JSON name", t, f.Name))
		default:
			fields = append(fields, field{name, s.kind(f.Type)})
		}
	}
	return fields
}

// kind is the language's name for a Go type; `?` marks what can be absent without meaning a zero value.
func (s *schema) kind(t reflect.Type) string {
	if t.Kind() == reflect.Pointer {
		return s.kind(t.Elem()) + "?"
	}
	if scalar, ok := scalars[t]; ok {
		return scalar
	}
	switch t.Kind() {
	case reflect.Bool:
		return "bool"
	case reflect.String:
		return "string"
	case reflect.Int, reflect.Int32, reflect.Int64:
		return "int"
	case reflect.Float32, reflect.Float64:
		return "double"
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "string" // base64 in JSON
		}
		return "list(" + s.kind(t.Elem()) + ")"
	case reflect.Map:
		return "map(" + s.kind(t.Key()) + ", " + s.kind(t.Elem()) + ")"
	case reflect.Struct:
		s.record(t)
		return t.Name()
	}
	panic("no type of the language for " + t.String())
}
