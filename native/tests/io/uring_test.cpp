#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string_view>

#include "core/io/queue.hpp"

namespace headrace {
namespace {

using std::chrono::milliseconds;

// A pipe in which nothing is, as a read that the kernel never ends.
class LostReads : public ::testing::Test {
 protected:
  void SetUp() override {
    auto queue = make_uring_queue(8, milliseconds(50));
    if (!queue.is_ok()) GTEST_SKIP() << queue.status().detail();
    queue_ = std::move(queue.value());
    ASSERT_EQ(pipe2(pipe_.data(), O_CLOEXEC), 0);
  }

  void TearDown() override {
    queue_.reset();
    for (const int fd : pipe_) {
      if (fd >= 0) close(fd);
    }
    set_uring_stuck(false);
  }

  IoDone wait_for_one() {
    IoDone done{};
    for (int i = 0; i < 1000; ++i) {
      if (queue_->pop(done)) return done;
      queue_->wait(1, milliseconds(20));
    }
    ADD_FAILURE() << "nothing ends";
    return done;
  }

  std::unique_ptr<IoQueue> queue_;
  std::array<int, 2> pipe_ = {-1, -1};
};

TEST_F(LostReads, AreTakenBackAndDoneAtOnce) {
  std::FILE* file = std::tmpfile();
  ASSERT_NE(file, nullptr);
  constexpr std::string_view text = "what the file holds";
  ASSERT_EQ(std::fwrite(text.data(), 1, text.size(), file), text.size());
  std::fflush(file);

  std::array<char, 4> bytes{};
  const iovec piece = {bytes.data(), bytes.size()};
  queue_->push({pipe_[0], &piece, 1, 5, 3});
  queue_->wait(0, {});  // the kernel has the pipe by now, whatever the number means from here on
  ASSERT_EQ(dup2(fileno(file), pipe_[0]), pipe_[0]);
  const IoDone done = wait_for_one();
  EXPECT_EQ(done.tag, 3U);
  EXPECT_EQ(done.result, 4);
  EXPECT_EQ(std::string_view(bytes.data(), bytes.size()), text.substr(5, 4));
  EXPECT_TRUE(is_uring_stuck());
  EXPECT_FALSE(make_uring_queue(8).is_ok());
  IoDone more{};
  EXPECT_FALSE(queue_->pop(more));
  std::fclose(file);
}

TEST_F(LostReads, ThatCannotBeDoneAtOnceFail) {
  std::array<char, 4> bytes{};
  const iovec piece = {bytes.data(), bytes.size()};
  for (std::uint32_t tag = 0; tag < 8; ++tag) queue_->push({pipe_[0], &piece, 1, 5, tag});
  for (int i = 0; i < 8; ++i) EXPECT_EQ(wait_for_one().result, -ESPIPE);
}

TEST_F(LostReads, AreThoseAloneThatDoNotEnd) {
  std::array<char, 4> bytes{};
  const iovec piece = {bytes.data(), bytes.size()};
  const int zeros = open("/dev/zero", O_RDONLY | O_CLOEXEC);
  queue_->push({pipe_[0], &piece, 1, 0, 0});
  for (int i = 0; i < 40; ++i) {  // something ends all the time
    queue_->push({zeros, &piece, 1, 0, 1});
    const IoDone done = wait_for_one();
    EXPECT_EQ(done.tag, 1U);
    EXPECT_EQ(done.result, 4);
    usleep(5000);
  }
  EXPECT_FALSE(is_uring_stuck());
  EXPECT_EQ(wait_for_one().tag, 0U);
  EXPECT_TRUE(is_uring_stuck());
  close(zeros);
}

}  // namespace
}  // namespace headrace
