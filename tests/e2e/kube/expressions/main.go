// Expressions evaluates CEL as Kubernetes does, so that a test can compare Placet with it.
//
// The first line of the standard input has the variables: a JSON object from names to expressions of their values.
// Each further line is an expression, as a JSON string. The first line of the output names the functions; each
// further line is what becomes of the expression of the same line: a value, the error of its evaluation, or why it
// does not compile. The environment is that of validation rules and admission policies, without types of the API.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/netip"
	"net/url"
	"os"
	"sort"
	"strconv"
	"time"

	"github.com/blang/semver/v4"
	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/version"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"
)

// The minor version of the pinned modules.
const minor = 36

// One of the three is set. A value is the name of its type and its content.
type result struct {
	Value   []any  `json:"value,omitempty"`
	Error   string `json:"error,omitempty"`
	Refused string `json:"refused,omitempty"`
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	env, err := environment.MustBaseEnvSet(version.MajorMinor(1, minor)).Env(environment.NewExpressions)
	if err != nil {
		return err
	}
	input := bufio.NewReader(os.Stdin)
	decoder := json.NewDecoder(input)
	output := json.NewEncoder(os.Stdout)
	texts := map[string]string{}
	if err := decoder.Decode(&texts); err != nil {
		return err
	}
	variables := map[string]*cel.Ast{}
	declared := []cel.EnvOption{}
	for name, text := range texts {
		ast, issues := env.Compile(text)
		if issues.Err() != nil {
			return fmt.Errorf("variable %s: %w", name, issues.Err())
		}
		variables[name] = ast
		declared = append(declared, cel.Variable(name, ast.OutputType()))
	}
	if env, err = env.Extend(declared...); err != nil {
		return err
	}
	names := []string{}
	for name := range env.Functions() {
		names = append(names, name)
	}
	sort.Strings(names)
	if err := output.Encode(names); err != nil {
		return err
	}
	for decoder.More() {
		var text string
		if err := decoder.Decode(&text); err != nil {
			return err
		}
		// Values are made anew for each expression: a comparison or a sum can change a quantity.
		values := map[string]any{}
		for name, ast := range variables {
			value, err := evaluated(env, ast, values)
			if err != nil {
				return fmt.Errorf("variable %s: %w", name, err)
			}
			values[name] = value
		}
		if err := output.Encode(resultOf(env, text, values)); err != nil {
			return err
		}
	}
	return nil
}

func resultOf(env *cel.Env, text string, variables map[string]any) result {
	ast, issues := env.Compile(text)
	if issues.Err() != nil {
		return result{Refused: issues.Err().Error()}
	}
	value, err := evaluated(env, ast, variables)
	if err != nil {
		return result{Error: err.Error()}
	}
	return result{Value: encoded(value)}
}

func evaluated(env *cel.Env, ast *cel.Ast, variables map[string]any) (ref.Val, error) {
	program, err := env.Program(ast, cel.EvalOptions(cel.OptOptimize, cel.OptTrackCost), cel.InterruptCheckFrequency(100))
	if err != nil {
		return nil, err
	}
	value, _, err := program.Eval(variables)
	return value, err
}

// The numbers are texts, because JSON has no integers of 64 bits and no infinity.
func encoded(value ref.Val) []any {
	switch v := value.(type) {
	case types.Null:
		return []any{"null", nil}
	case types.Bool:
		return []any{"bool", bool(v)}
	case types.Int:
		return []any{"int", strconv.FormatInt(int64(v), 10)}
	case types.Double:
		return []any{"double", strconv.FormatFloat(float64(v), 'g', 17, 64)}
	case types.String:
		return []any{"string", string(v)}
	case types.Duration:
		return []any{"duration", strconv.FormatInt(int64(v.Duration), 10)}
	case types.Timestamp:
		return []any{"timestamp", v.Time.UTC().Format(time.RFC3339Nano)}
	case *types.Optional:
		if !v.HasValue() {
			return []any{"optional", nil}
		}
		return []any{"optional", encoded(v.GetValue())}
	case traits.Mapper:
		pairs := [][]any{}
		for keys := v.Iterator(); keys.HasNext() == types.True; {
			key := keys.Next()
			pairs = append(pairs, []any{encoded(key), encoded(v.Get(key))})
		}
		return []any{"map", pairs}
	case traits.Lister:
		items := []any{}
		for each := v.Iterator(); each.HasNext() == types.True; {
			items = append(items, encoded(each.Next()))
		}
		return []any{"list", items}
	case apiservercel.Format:
		return []any{"format", v.Name}
	case ref.Type:
		return []any{"type", v.TypeName()}
	}
	switch v := value.Value().(type) {
	case *resource.Quantity:
		return []any{"quantity", v.String()}
	case semver.Version:
		return []any{"semver", v.String()}
	case netip.Addr:
		return []any{"ip", v.String()}
	case netip.Prefix:
		return []any{"cidr", v.String()}
	case *url.URL:
		return []any{"url", v.String()}
	}
	return []any{"other", fmt.Sprint(value.Value())}
}
