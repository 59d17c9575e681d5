#include "headrace/formats/tar.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <span>

namespace headrace {
namespace {

constexpr std::int64_t kNanoseconds = 1'000'000'000;
constexpr std::uint64_t kLargestId = 07777777;
constexpr std::uint64_t kLargestNumber = 077777777777;
constexpr std::size_t kNameSize = 100;
constexpr std::size_t kPrefixSize = 155;
constexpr char kFile = '0';
constexpr char kDirectory = '5';
constexpr char kPax = 'x';

// As ustar has it; all of it is text.
struct Header {
  char name[kNameSize];
  char mode[8];
  char uid[8];
  char gid[8];
  char size[12];
  char mtime[12];
  char checksum[8];
  char type;
  char link[100];
  char magic[6];
  char version[2];
  char user[32];
  char group[32];
  char major[8];
  char minor[8];
  char prefix[kPrefixSize];
  char rest[12];
};
static_assert(sizeof(Header) == kTarBlockSize);

// Octal digits with zeros in front and a NUL behind; the number fits.
void put_octal(std::span<char> field, std::uint64_t number) noexcept {
  for (std::size_t i = field.size() - 1; i-- > 0; number /= 8) {
    field[i] = static_cast<char>('0' + number % 8);
  }
  field.back() = '\0';
}

void put_text(std::span<char> field, std::string_view text) noexcept {
  std::memcpy(field.data(), text.data(), std::min(field.size(), text.size()));
}

bool is_ascii(std::string_view text) noexcept {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return static_cast<signed char>(c) >= 0; });
}

// The time is rounded down, before 1970 too.
std::int64_t seconds_of(std::int64_t time_ns) noexcept {
  return time_ns / kNanoseconds - (time_ns % kNanoseconds < 0 ? 1 : 0);
}

// Times that do not fit, from the year 2262 on, become the last one that does.
std::int64_t nanoseconds_of(const timespec& time) noexcept {
  constexpr std::int64_t kMost = INT64_MAX / kNanoseconds - 1;
  const std::int64_t seconds = std::clamp<std::int64_t>(time.tv_sec, -kMost, kMost);
  return seconds * kNanoseconds + time.tv_nsec;
}

std::string exact_time(std::int64_t time_ns) {
  const std::uint64_t size =
      time_ns < 0 ? -static_cast<std::uint64_t>(time_ns) : static_cast<std::uint64_t>(time_ns);
  const std::string fraction = std::to_string(size % kNanoseconds);
  std::string text;
  if (time_ns < 0) text += '-';
  text += std::to_string(size / kNanoseconds);
  text += '.';
  text.append(9 - fraction.size(), '0');
  text += fraction;
  return text;
}

// "27 path=..." and a line end; the number counts itself.
void add_record(std::string& records, std::string_view key, std::string_view value) {
  const std::size_t rest = key.size() + value.size() + 3;
  std::size_t size = rest + 1;
  while (std::to_string(size).size() + rest != size) ++size;
  records += std::to_string(size);
  records += ' ';
  records += key;
  records += '=';
  records += value;
  records += '\n';
}

// Where a name is cut so that both parts fit; npos where there is no such place.
std::size_t cut_of(std::string_view name) noexcept {
  const std::size_t cut = name.substr(0, kPrefixSize + 1).rfind('/', name.size() - 2);
  const bool is_cut = cut != std::string_view::npos && cut > 0;
  return is_cut && name.size() - cut - 1 <= kNameSize ? cut : std::string_view::npos;
}

// Gives false where ustar has no room for it; then as much stands there as fits.
bool put_name(Header& header, std::string_view name) noexcept {
  if (name.size() <= kNameSize) {
    put_text(header.name, name);
    return is_ascii(name);
  }
  const std::size_t cut = cut_of(name);
  if (cut == std::string_view::npos) {
    put_text(header.name, name);
    return false;
  }
  put_text(header.prefix, name.substr(0, cut));
  put_text(header.name, name.substr(cut + 1));
  return is_ascii(name);
}

// A number, or zero and a record of it where there is no room.
void put_number(std::span<char> field, std::uint64_t largest, std::int64_t number,
                std::string_view key, std::string& records) {
  const bool has_room = number >= 0 && static_cast<std::uint64_t>(number) <= largest;
  put_octal(field, has_room ? static_cast<std::uint64_t>(number) : 0);
  if (!has_room) add_record(records, key, std::to_string(number));
}

void finish(Header& header) noexcept {
  put_text(header.magic, "ustar");
  put_text(header.version, "00");
  std::fill(std::begin(header.checksum), std::end(header.checksum), ' ');
  std::array<unsigned char, sizeof(Header)> bytes;
  std::memcpy(bytes.data(), &header, sizeof(Header));
  std::uint64_t sum = 0;
  for (const unsigned char byte : bytes) sum += byte;
  put_octal(std::span(header.checksum).first<7>(), sum);  // a NUL, and the blank stays
}

class OpenFile {
 public:
  explicit OpenFile(const char* path) noexcept
      : fd_(open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)) {}
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  ~OpenFile() {
    if (fd_ >= 0) close(fd_);
  }
  [[nodiscard]] int fd() const noexcept { return fd_; }

 private:
  int fd_;
};

Status io_failure() noexcept {
  return {Code::io_error, Detail("error ") << static_cast<std::uint64_t>(errno)};
}

Status no_memory() noexcept { return {Code::out_of_memory, "no memory for a part of a tar"}; }

// Up to `size` bytes; fewer where the file ends. Negative on failure.
std::int64_t read_up_to(int fd, char* out, std::size_t size) noexcept {
  std::size_t done = 0;
  while (done < size) {
    const ssize_t count = read(fd, out + done, size - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return -1;
    if (count == 0) break;
    done += static_cast<std::size_t>(count);
  }
  return static_cast<std::int64_t>(done);
}

}  // namespace

void TarPart::put_pax(std::string_view records) {
  Header header{};
  put_text(header.name, "././@PaxHeader");
  put_octal(header.mode, 0644);
  put_octal(header.uid, 0);
  put_octal(header.gid, 0);
  put_octal(header.size, records.size());
  put_octal(header.mtime, 0);
  header.type = kPax;
  finish(header);
  bytes_.append(reinterpret_cast<const char*>(&header), sizeof(Header));
  bytes_.append(records);
  fill_block();
}

void TarPart::put_header(const TarMember& member) {
  Header header{};
  std::string records;
  std::string with_slash;
  std::string_view name = member.name;
  if (member.is_directory) {
    with_slash = name;
    with_slash += '/';
    name = with_slash;
  }
  if (!put_name(header, name)) add_record(records, "path", name);
  put_octal(header.mode, member.mode & 07777);
  put_number(header.uid, kLargestId, member.uid, "uid", records);
  put_number(header.gid, kLargestId, member.gid, "gid", records);
  put_number(header.size, kLargestNumber, static_cast<std::int64_t>(member.size), "size", records);
  const bool is_exact = has_exact_times_ && member.mtime_ns % kNanoseconds != 0;
  const std::int64_t seconds = seconds_of(member.mtime_ns);
  if (is_exact) {
    add_record(records, "mtime", exact_time(member.mtime_ns));
    put_octal(header.mtime, static_cast<std::uint64_t>(std::max<std::int64_t>(seconds, 0)));
  } else {
    put_number(header.mtime, kLargestNumber, seconds, "mtime", records);
  }
  header.type = member.is_directory ? kDirectory : kFile;
  finish(header);
  if (!records.empty()) put_pax(records);
  bytes_.append(reinterpret_cast<const char*>(&header), sizeof(Header));
}

void TarPart::fill_block() { bytes_.resize(round_up(bytes_.size(), kTarBlockSize)); }

Status TarPart::add_header(const TarMember& member) noexcept {
  const std::size_t before = bytes_.size();
  try {
    put_header(member);
  } catch (...) {
    bytes_.resize(before);
    return no_memory();
  }
  return {};
}

Status TarPart::add(TarMember member, ByteSpan content) noexcept {
  const std::size_t before = bytes_.size();
  member.size = content.size();
  try {
    put_header(member);
    bytes_.append(reinterpret_cast<const char*>(content.data()), content.size());
    fill_block();
  } catch (...) {
    bytes_.resize(before);
    return no_memory();
  }
  content_bytes_ += content.size();
  return {};
}

Status TarPart::put_file(int fd, std::string_view name, std::uint64_t most_bytes) {
  struct stat facts{};
  if (fstat(fd, &facts) != 0) return io_failure();
  const bool is_directory = S_ISDIR(facts.st_mode);
  if (!is_directory && !S_ISREG(facts.st_mode)) return {Code::unsupported, "not a regular file"};
  const auto size = is_directory ? 0 : static_cast<std::uint64_t>(facts.st_size);
  if (size > most_bytes) return {Code::too_large, "a large file"};
  TarMember member{.name = name,
                   .is_directory = is_directory,
                   .mode = facts.st_mode & 07777,
                   .uid = facts.st_uid,
                   .gid = facts.st_gid,
                   .size = size,
                   .mtime_ns = nanoseconds_of(facts.st_mtim)};
  const std::size_t before = bytes_.size();
  put_header(member);
  const std::size_t start = bytes_.size();
  bytes_.resize(start + size);
  const std::int64_t count = read_up_to(fd, bytes_.data() + start, size);
  if (count < 0) return io_failure();
  if (static_cast<std::uint64_t>(count) != size) {  // it became shorter since; the header counts
    member.size = static_cast<std::uint64_t>(count);
    const std::string content = bytes_.substr(start, member.size);
    bytes_.resize(before);
    put_header(member);
    bytes_ += content;
  }
  fill_block();
  content_bytes_ += member.size;
  return {};
}

Status TarPart::add_from_disk(const char* path, std::string_view name,
                              std::uint64_t most_bytes) noexcept {
  const OpenFile file(path);
  if (file.fd() < 0) return io_failure();
  const std::size_t before = bytes_.size();
  Status status;
  try {
    status = put_file(file.fd(), name, most_bytes);
  } catch (...) {
    status = no_memory();
  }
  if (!status.is_ok()) bytes_.resize(before);
  return status;
}

}  // namespace headrace
