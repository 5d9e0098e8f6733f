// Random small joint graphs, for the tests of the partitioner.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "compiler/partition/joint_testing.h"

namespace kiln {

// Over f32 matrices of 4 or 1 rows and columns: pointwise nodes, sums over a row, matrix products, nodes that only a
// gradient needs, and a backward that multiplies its tangent by some of all that.
class RandomJoint {
 public:
  explicit RandomJoint(uint32_t seed) : random_(seed) {}

  std::shared_ptr<const Graph> Make(int forward_nodes, int backward_nodes) {
    static constexpr Shape kPrimals[] = {{4, 4}, {4, 1}, {1, 4}};
    for (const Shape& shape : kPrimals) Define(shape, "input", "");
    const size_t tangent = Define({4, 4}, "input", "");
    shapes_[tangent].rows = 0;  // not for AddForward
    for (int i = 0; i < forward_nodes; ++i) AddForward();
    const size_t out = shapes_.size() - 1;
    size_t gradient = tangent;
    for (int i = 0; i < backward_nodes; ++i) {
      size_t factor = AnyForward(out);
      if (Below(4) == 0) factor = Define(shapes_[factor], Call("cos", factor), " phase=backward");
      gradient = Define({4, 4}, Call("mul", gradient, factor), " phase=backward");
    }
    return JointOf(3, 1,
                   body_ + "return %" + std::to_string(out) + ", %" + std::to_string(gradient) + ", none, none\n");
  }

 private:
  struct Shape {
    int rows, columns;
  };

  uint32_t Below(size_t n) { return static_cast<uint32_t>(random_() % n); }

  size_t AnyForward(size_t last) {
    while (true) {
      const size_t v = Below(last + 1);
      if (shapes_[v].rows != 0) return v;
    }
  }

  static std::string Call(const std::string& op, size_t a) {
    return "aten." + op + ".default(%" + std::to_string(a) + ")";
  }
  static std::string Call(const std::string& op, size_t a, size_t b) {
    return "aten." + op + (op == "mm" ? ".default(%" : ".Tensor(%") + std::to_string(a) + ", %" + std::to_string(b) +
           ")";
  }

  size_t Define(Shape shape, const std::string& what, const std::string& after) {
    body_ += "%" + std::to_string(shapes_.size()) + " = " + what + (what == "input" ? "" : " :") + " f32[" +
             std::to_string(shape.rows) + ", " + std::to_string(shape.columns) + "]" + after + "\n";
    shapes_.push_back(shape);
    return shapes_.size() - 1;
  }

  void AddForward() {
    const size_t a = AnyForward(shapes_.size() - 1), b = AnyForward(shapes_.size() - 1);
    const Shape x = shapes_[a], y = shapes_[b];
    const bool square = x.rows * x.columns * y.rows * y.columns == 256;
    switch (Below(6)) {
      case 0:
        Define(x, Call("sin", a), "");
        return;
      case 1:
        Define({x.rows, 1}, "aten.sum.dim_IntList(%" + std::to_string(a) + ", [1], true, none)", "");
        return;
      case 2:
      case 3:
        if (square) {
          Define({4, 4}, Call("mm", a, b), "");
          return;
        }
        [[fallthrough]];
      default:
        Define({std::max(x.rows, y.rows), std::max(x.columns, y.columns)}, Call("mul", a, b), "");
    }
  }

  std::mt19937 random_;
  std::string body_;
  std::vector<Shape> shapes_;  // per value
};

}  // namespace kiln
